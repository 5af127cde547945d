//! What the command line prints, in one wording: `error: …`, `hint: …`, `warning: …` on standard error.

use std::{io::Write, process::ExitCode};

use evi_app::{Problem, domain::ConfigProblem};

/// Prints a line of data. A reader that went away (`| head`) ends the program quietly.
pub fn line(text: &str) {
    if writeln!(std::io::stdout().lock(), "{text}").is_err() {
        std::process::exit(0);
    }
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
