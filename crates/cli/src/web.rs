//! `evi web`: the window's page in a browser on this machine.

use std::{net::ToSocketAddrs, process::ExitCode};

use evi_app::{Front, Home, Options, Problem, Shell, contract::Code, domain::Secret, logging};
use evi_web::{Web, WebSettings};
use tokio_util::sync::CancellationToken;

use crate::{args, output, serve::ended_by_signal};

/// Serves the page until the person ends it.
pub async fn web(home: Home, args: args::Web) -> Result<ExitCode, Problem> {
    let addr =
        (args.host.as_str(), args.port).to_socket_addrs().ok().and_then(|mut all| all.next()).ok_or_else(
            || {
                Problem::new(Code::InvalidInput, format!("{} is not an address of this machine", args.host))
                    .hint("use 127.0.0.1")
            },
        )?;
    let options = Options::new(home.clone(), Shell::Web);
    logging::init(&home, &options.redactor, true);
    output::config_problems(&evi_app::read_config(&home).1);
    let redactor = options.redactor.clone();
    let front = Front::open(options).await?;
    let kept = evi_app::web_token(&home).await;
    let made = kept.is_none();
    let token = kept.unwrap_or_else(|| Secret::new(evi_app::random_token()));
    redactor.add(&token);
    let ended = CancellationToken::new();
    let settings = WebSettings { addr, token: token.clone() };
    let web = match Web::bind(front.clone(), settings, ended.clone()).await {
        Ok(web) => web,
        Err(problem) => {
            front.shutdown().await;
            return Err(problem);
        }
    };
    // A token that the person set is theirs to keep; one that was made is nowhere else.
    let link = format!(
        "http://{}/{}",
        web.address(),
        if made { format!("#token={}", token.expose()) } else { String::new() }
    );
    output::line(&format!("open {link}"));
    let cancel = ended.clone();
    let result = tokio::select! {
        result = web.run(cancel) => result,
        () = ended_by_signal() => Ok(()),
    };
    ended.cancel();
    front.shutdown().await;
    result.map(|()| ExitCode::SUCCESS)
}
