//! Starting other programs: it shows each command before it runs and turns a bad end into an error that names the command.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Variables that cargo set for this program itself; builds started from here must not see them, or cargo would think
/// that the environment of build scripts had changed and build everything again.
const OWN_VARIABLES: [&str; 3] = ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_PRIMARY_PACKAGE"];

/// Cargo, in the repository's root.
pub fn cargo(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    without_own_variables(command.current_dir(root));
    command
}

/// Takes out what cargo set for this program itself.
pub fn without_own_variables(command: &mut Command) {
    for name in OWN_VARIABLES {
        command.env_remove(name);
    }
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_")) {
            command.env_remove(name);
        }
    }
}

/// npm, in the given project. On Windows npm is a script, which only the command interpreter starts.
pub fn npm(project: &Path) -> Command {
    let mut command = if cfg!(windows) { Command::new("npm.cmd") } else { Command::new("npm") };
    command.current_dir(project);
    command
}

/// Shows the command, runs it to its end, and fails unless it ends with success.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    eprintln!("$ {shown}");
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("could not start: {shown}"))?;
    if !status.success() {
        bail!("{shown}\n       ended with {status}");
    }
    Ok(())
}

/// What the command printed, trimmed; `None` when it cannot be started or fails.
pub fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether a program of this name is on the search path.
pub fn is_on_path(program: &str) -> bool {
    find_on_path(program).is_some()
}

fn find_on_path(program: &str) -> Option<PathBuf> {
    let file = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(&file))
        .find(|path| path.is_file())
}

fn shown(command: &Command) -> String {
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .map(quoted)
        .collect();
    words.join(" ")
}

fn quoted(word: std::borrow::Cow<'_, str>) -> String {
    if word.is_empty() || word.contains(char::is_whitespace) {
        format!("'{word}'")
    } else {
        word.into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_end_names_the_whole_command() {
        let error =
            run(Command::new("cargo").args(["no-such-command", "two words"])).unwrap_err().to_string();
        assert!(error.starts_with("cargo no-such-command 'two words'\n"), "{error}");
        let error = run(&mut Command::new("no-such-program")).unwrap_err().to_string();
        assert_eq!(error, "could not start: no-such-program");
    }
}
