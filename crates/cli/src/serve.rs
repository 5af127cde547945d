//! `evi mcp serve` and `serve-config`: other applications reach eVi through these.

use std::{net::ToSocketAddrs, process::ExitCode};

use evi_app::{
    Front, Home, HttpGateway, HttpSettings, Options, Problem, Shell,
    contract::{Code, ConnectQuery},
    domain::{Exposure, Secret},
    gateway_problem, logging,
};

use crate::{
    args::{Serve, ServeConfig},
    output,
};

/// `evi mcp serve-config`.
pub fn config(home: &Home, args: &ServeConfig) -> Result<ExitCode, Problem> {
    let query = ConnectQuery {
        client: args.client.clone(),
        http: args.http,
        categories: args.categories.clone(),
        profile: args.profile.clone(),
    };
    let text = evi_app::connect_text(home, &query)?;
    output::line(text.text.trim_end());
    if args.client.is_some()
        && let Some(file) = &text.file
    {
        output::hint(&format!("{} keeps its servers in {file}", text.title));
    }
    Ok(ExitCode::SUCCESS)
}

/// `evi mcp serve`.
pub async fn serve(home: Home, args: Serve) -> Result<ExitCode, Problem> {
    let exposure = Exposure {
        profile: args.profile.clone(),
        categories: args.categories.clone(),
        tools: args.tools.clone(),
    };
    evi_app::check_exposure(&home, &exposure)?;
    output::config_problems(&evi_app::read_config(&home).1);
    let options = Options::new(home.clone(), Shell::Serve);
    logging::init(&home, &options.redactor, true);
    if args.http { http(options, exposure, args).await } else { stdio(options, exposure).await }
}

async fn stdio(options: Options, exposure: Exposure) -> Result<ExitCode, Problem> {
    let front = Front::open(options).await?;
    let served = front.serve_client(exposure, tokio::io::stdin(), tokio::io::stdout());
    let result = tokio::select! {
        result = served => result,
        () = ended_by_signal() => Ok(()),
    };
    front.shutdown().await;
    result.map(|()| ExitCode::SUCCESS)
}

async fn http(options: Options, exposure: Exposure, args: Serve) -> Result<ExitCode, Problem> {
    let addr =
        (args.host.as_str(), args.port).to_socket_addrs().ok().and_then(|mut all| all.next()).ok_or_else(
            || {
                Problem::new(Code::InvalidInput, format!("{} is not an address of this machine", args.host))
                    .hint("use 127.0.0.1")
            },
        )?;
    let token = args.token.filter(|t| !t.is_empty()).map(Secret::new);
    if let Some(token) = &token {
        options.redactor.add(token);
    }
    let open = token.is_none();
    let front = Front::open(options).await?;
    let settings =
        HttpSettings { addr, token, exposure: exposure.clone(), insecure_no_auth: args.insecure_no_auth };
    let started = HttpGateway::start(front.host(exposure), settings).await;
    let gateway = match started {
        Ok(gateway) => gateway,
        Err(error) => {
            front.shutdown().await;
            return Err(gateway_problem(&error));
        }
    };
    if open {
        output::warning("no token: every program on this machine can use this endpoint; set EVI_MCP_TOKEN");
    }
    eprintln!("serving on http://{}/mcp", gateway.address());
    ended_by_signal().await;
    gateway.stop().await;
    front.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

/// Until the person or the system ends this process.
pub async fn ended_by_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let (Ok(mut term), Ok(mut hup)) = (signal(SignalKind::terminate()), signal(SignalKind::hangup())) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = term.recv() => {}
                _ = hup.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
