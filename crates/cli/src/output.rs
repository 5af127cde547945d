//! What the command line prints, in one wording: `error: …`, `hint: …`, `warning: …` on standard error.

use std::{io::Write, path::Path, process::ExitCode};

use evi_app::{Problem, domain::ConfigProblem};

/// Prints a line of data. A reader that went away (`| head`) ends the program quietly.
pub fn line(text: &str) {
    if writeln!(std::io::stdout().lock(), "{text}").is_err() {
        std::process::exit(0);
    }
}

/// Prints data as JSON, for programs.
pub fn json(data: &impl serde::Serialize) {
    line(&serde_json::to_string_pretty(data).unwrap_or_default());
}

/// Prints a problem and gives its exit status.
pub fn failed(problem: &Problem) -> ExitCode {
    eprintln!("error: {}", problem.message);
    if let Some(hint) = &problem.hint {
        eprintln!("hint: {hint}");
    }
    ExitCode::from(problem.code.exit_status())
}

/// Prints a warning.
pub fn warning(text: &str) {
    eprintln!("warning: {text}");
}

/// Prints what is not clear in the configuration, each with its file, line and column.
pub fn config_problems(problems: &[ConfigProblem]) {
    for problem in problems {
        warning(&problem.to_string());
    }
}

/// Prints what can be done.
pub fn hint(text: &str) {
    eprintln!("hint: {text}");
}

/// Prints which line to write so that servers run.
pub fn servers_off(config_toml: &Path) {
    hint(&format!("servers are off until {} has:\n[tools]\nmcp = true", config_toml.display()));
}
