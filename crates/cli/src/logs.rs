//! `evi mcp logs`: prints what a server wrote, and starts nothing.

use std::process::ExitCode;

use evi_app::{Home, Problem, contract::LogLineView, logs::LogReader};

use crate::{args::Logs, output};

/// Prints the lines there are, and with `--follow` those that come, until the person ends it.
pub async fn logs(home: Home, args: Logs) -> Result<ExitCode, Problem> {
    let (mut reader, lines) = LogReader::open(home, &args.name).await?;
    print(&lines, args.json);
    if lines.is_empty() && !args.follow {
        output::hint(&format!("{} has written nothing yet", args.name));
    }
    if args.follow {
        loop {
            print(&reader.more().await?, args.json);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print(lines: &[LogLineView], as_json: bool) {
    for line in lines {
        if as_json {
            output::line(&serde_json::to_string(line).unwrap_or_default());
        } else {
            output::line(&evi_app::logs::shown(line));
        }
    }
}
