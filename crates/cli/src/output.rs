//! What the command line prints, in one wording: `error: …`, `hint: …`, `warning: …` on standard error.

use std::{
    borrow::Cow,
    io::{IsTerminal, Write},
    path::Path,
    process::ExitCode,
};

use evi_app::{Problem, domain::ConfigProblem};

/// Prints a line of data: on a screen without what would steer it, for another program as it is. A reader that went
/// away (`| head`) ends the program quietly.
pub fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    let text = if out.is_terminal() { shown(text) } else { Cow::Borrowed(text) };
    if writeln!(out, "{text}").is_err() {
        std::process::exit(0);
    }
}

/// A text of others for a screen: control characters and those that change the direction or hide are written out,
/// so that nothing moves the cursor or pretends to be another word.
pub fn shown(text: &str) -> Cow<'_, str> {
    let steers = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let written =
        text.chars().map(|c| if steers(c) { format!("\\u{{{:x}}}", u32::from(c)) } else { c.to_string() });
    Cow::Owned(written.collect())
}

/// Prints data as JSON, for programs.
pub fn json(data: &impl serde::Serialize) {
    line(&serde_json::to_string_pretty(data).unwrap_or_default());
}

/// Prints a problem and gives its exit status.
pub fn failed(problem: &Problem) -> ExitCode {
    eprintln!("error: {}", shown(&problem.message));
    if let Some(hint) = &problem.hint {
        eprintln!("hint: {}", shown(hint));
    }
    ExitCode::from(problem.code.exit_status())
}

/// Prints a warning.
pub fn warning(text: &str) {
    eprintln!("warning: {}", shown(text));
}

/// Prints what is not clear in the configuration, each with its file, line and column.
pub fn config_problems(problems: &[ConfigProblem]) {
    for problem in problems {
        warning(&problem.to_string());
    }
}

/// Prints what can be done.
pub fn hint(text: &str) {
    eprintln!("hint: {}", shown(text));
}

/// Prints which line to write so that servers run.
pub fn servers_off(config_toml: &Path) {
    hint(&format!("servers are off until {} has:\n[tools]\nmcp = true", config_toml.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_screen_is_written_out() {
        assert_eq!(shown("a\u{1b}[31mb\u{202e}c\u{7}"), "a\\u{1b}[31mb\\u{202e}c\\u{7}");
        assert!(matches!(shown("Grüße\n\tمرحبا"), Cow::Borrowed(_)));
    }
}
