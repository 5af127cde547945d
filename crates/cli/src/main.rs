//! The command `evi`: reads arguments, asks the application, prints. Data on standard output, everything else on
//! standard error.

mod args;
mod edit;
mod logs;
mod offer;
mod output;
mod plugin;
mod serve;
mod tools;
mod web;

use std::process::ExitCode;

use clap::Parser;
use evi_app::{Home, Problem, contract::Code};

use args::{Cli, Command, Mcp, Plugin};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let home = match Home::from_env() {
        Ok(home) => home,
        Err(error) => {
            return output::failed(
                &Problem::new(Code::Storage, error.to_string()).hint("set EVI_HOME to a folder"),
            );
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return output::failed(&Problem::new(Code::Internal, format!("could not start: {error}")));
        }
    };
    let status = runtime.block_on(run(cli, home));
    // Tasks that hang in the system (a keychain that never answers) must not keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    status
}

async fn run(cli: Cli, home: Home) -> ExitCode {
    let result = match cli.command {
        Command::Mcp(mcp) => match mcp {
            Mcp::Path => edit::path(&home),
            Mcp::ListServers { json } => edit::list_servers(&home, json).await,
            Mcp::Add(add) => edit::add(home, add).await,
            Mcp::AddHttp(add) => edit::add_http(home, add).await,
            Mcp::Remove { name } => edit::remove(home, name).await,
            Mcp::Enable { name } => edit::switch(home, name, true).await,
            Mcp::Disable { name } => edit::switch(home, name, false).await,
            Mcp::ListTools { json } => tools::list(home, json).await,
            Mcp::Call(call) => tools::call(home, call).await,
            Mcp::ListResources(args) => offer::list_resources(home, args).await,
            Mcp::Read(args) => offer::read(home, args).await,
            Mcp::ListPrompts(args) => offer::list_prompts(home, args).await,
            Mcp::Prompt(args) => offer::prompt(home, args).await,
            Mcp::Logs(args) => logs::logs(home, args).await,
            Mcp::Serve(serve) => serve::serve(home, serve).await,
            Mcp::ServeConfig(config) => serve::config(&home, &config),
        },
        Command::Plugin(plugin) => match plugin {
            Plugin::List { json } => plugin::list(&home, json),
            Plugin::Enable { name } => plugin::switch(home, name, true).await,
            Plugin::Disable { name } => plugin::switch(home, name, false).await,
            Plugin::Remove { name } => plugin::remove(home, name).await,
        },
        Command::Web(web) => web::web(home, web).await,
    };
    match result {
        Ok(status) => status,
        Err(problem) => output::failed(&problem),
    }
}
