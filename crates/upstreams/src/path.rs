//! Finds programs: the one search path that validation and spawning share. It never runs what it finds.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use crate::platform;

/// A program that is in none of the folders searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("program not found: {program}")]
pub struct NotFound {
    /// What was asked for.
    pub program: String,
    /// Where it was looked for, in order.
    pub searched: Vec<PathBuf>,
}

impl NotFound {
    /// What to try.
    pub fn hint(&self) -> String {
        crate::error::not_found_hint(&self.program, &self.searched)
    }
}

/// Finds the file that a command names: a path as it is, a bare name along the search path. `extra_path` is a
/// `PATH` that goes before everything else. The first call may take up to 2 s, because it asks the login shell
/// for its `PATH`; call it from a thread that may block.
///
/// # Errors
/// [`NotFound`] with the folders searched.
pub fn resolve_command(command: &str, extra_path: Option<&str>) -> Result<PathBuf, NotFound> {
    resolve_in(command, extra_path, None)
}

/// The same with the folder that relative paths start from.
pub(crate) fn resolve_in(
    command: &str,
    extra_path: Option<&str>,
    cwd: Option<&Path>,
) -> Result<PathBuf, NotFound> {
    let missing = |searched| NotFound { program: command.to_owned(), searched };
    if command.trim().is_empty() {
        return Err(missing(Vec::new()));
    }
    let path = expand_home(command);
    let named_by_path =
        path.is_absolute() || command.contains('/') || (cfg!(windows) && command.contains('\\'));
    if named_by_path {
        let full = match cwd {
            Some(cwd) if path.is_relative() => cwd.join(&path),
            _ => path,
        };
        return runnable(&full)
            .ok_or_else(|| missing(full.parent().map(Path::to_owned).into_iter().collect()));
    }
    let searched = search_path(extra_path);
    searched
        .iter()
        .find_map(|folder| runnable(&folder.join(command)))
        .ok_or_else(|| missing(searched.clone()))
}

/// The `PATH` of a child: the search path, then the folder of its own program, where its interpreter often is.
pub(crate) fn child_path(program: &Path, extra_path: Option<&str>) -> OsString {
    let mut folders = search_path(extra_path);
    if let Some(own) = program.parent()
        && !folders.iter().any(|f| f == own)
    {
        folders.push(own.to_owned());
    }
    // A folder whose name holds the separator cannot be in a `PATH`.
    folders.retain(|f| env::join_paths([f]).is_ok());
    env::join_paths(folders).unwrap_or_else(|_| env::var_os("PATH").unwrap_or_default())
}

fn expand_home(command: &str) -> PathBuf {
    match command.strip_prefix("~/").zip(home()) {
        Some((rest, home)) => home.join(rest),
        None => PathBuf::from(command),
    }
}

fn home() -> Option<PathBuf> {
    env::var_os(if cfg!(windows) { "USERPROFILE" } else { "HOME" })
        .filter(|h| !h.is_empty())
        .map(PathBuf::from)
}

/// Every folder once, in the order of the search.
fn search_path(extra_path: Option<&str>) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let extra = extra_path.map(|p| env::split_paths(p).collect()).unwrap_or_default();
    let own = env::var_os("PATH").map(|p| env::split_paths(&p).collect()).unwrap_or_default();
    let lists: [Vec<PathBuf>; 4] = [extra, own, system_path().to_vec(), tool_folders()];
    for folder in lists.into_iter().flatten() {
        // A relative entry would depend on where eVi happens to run.
        if folder.is_absolute() && !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// What the session would give a terminal: asked once per process.
fn system_path() -> &'static [PathBuf] {
    static PATH: OnceLock<Vec<PathBuf>> = OnceLock::new();
    PATH.get_or_init(|| platform::session_path().map(|p| env::split_paths(&p).collect()).unwrap_or_default())
}

/// Where the usual tools put themselves, whether or not a shell was told.
fn tool_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(home) = home() {
        for name in [".local/bin", ".cargo/bin", ".bun/bin", ".deno/bin", ".volta/bin", ".asdf/shims", "bin"]
        {
            folders.push(home.join(name));
        }
        folders.extend(nvm_current(&home));
    }
    for (variable, below) in [("APPDATA", "npm"), ("ProgramFiles", "nodejs")] {
        // Only Windows has these.
        folders.extend(env::var_os(variable).map(|base| PathBuf::from(base).join(below)));
    }
    for name in ["/usr/local/bin", "/opt/homebrew/bin", "/usr/bin", "/bin", "/snap/bin"] {
        folders.push(PathBuf::from(name));
    }
    folders.retain(|f| f.is_dir());
    folders
}

/// The Node that nvm would choose: its `current` link, else what `default` names, else the newest.
fn nvm_current(home: &Path) -> Option<PathBuf> {
    let nvm = env::var_os("NVM_DIR").map_or_else(|| home.join(".nvm"), PathBuf::from);
    let current = nvm.join("current/bin");
    if current.is_dir() {
        return Some(current);
    }
    let versions = nvm.join("versions/node");
    let wanted = std::fs::read_to_string(nvm.join("alias/default")).unwrap_or_default();
    let wanted = wanted.trim().trim_start_matches('v').to_owned();
    let mut found: Vec<(Vec<u32>, PathBuf)> = std::fs::read_dir(versions)
        .ok()?
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().trim_start_matches('v').to_owned();
            let numbers = name.split('.').map(str::parse).collect::<Result<Vec<u32>, _>>().ok()?;
            Some((numbers, entry.path().join("bin")))
        })
        .collect();
    found.sort();
    let prefix: Vec<u32> = wanted.split('.').map_while(|n| n.parse().ok()).collect();
    let chosen = found.iter().rev().find(|(n, _)| !prefix.is_empty() && n.starts_with(&prefix));
    chosen.or(found.last()).map(|(_, bin)| bin.clone())
}

#[cfg(unix)]
fn runnable(path: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let meta = std::fs::metadata(path).ok()?;
    (meta.is_file() && meta.permissions().mode() & 0o111 != 0).then(|| path.to_owned())
}

#[cfg(not(unix))]
fn runnable(path: &Path) -> Option<PathBuf> {
    let extensions = env::var("PATHEXT").unwrap_or_else(|_| ".COM;.EXE;.BAT;.CMD".to_owned());
    with_extension(path, &extensions)
}

/// Windows' way to find a program: `npx` is `npx.cmd` there, so that each extension of `PATHEXT` is tried, and a file
/// without one of them, which often is a script for another shell, is none.
#[cfg(any(not(unix), test))]
fn with_extension(path: &Path, extensions: &str) -> Option<PathBuf> {
    let known = path.extension().is_some_and(|have| {
        let have = have.to_string_lossy();
        extensions.split(';').any(|e| e.trim_start_matches('.').eq_ignore_ascii_case(&have))
    });
    if known && path.is_file() {
        return Some(path.to_owned());
    }
    extensions.split(';').filter(|e| !e.is_empty()).find_map(|extension| {
        let mut name = path.as_os_str().to_owned();
        name.push(extension);
        let candidate = PathBuf::from(name);
        candidate.is_file().then_some(candidate)
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn program(folder: &Path, name: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn i10_a_bare_name_is_found_where_it_would_be_spawned() {
        let folder = tempfile::tempdir().unwrap();
        let tool = program(folder.path(), "evi-some-tool", 0o755);
        let extra = folder.path().to_string_lossy().into_owned();
        assert_eq!(resolve_command("evi-some-tool", Some(&extra)), Ok(tool));
        assert!(resolve_command("sh", None).is_ok());
    }

    #[test]
    fn i05_npx_is_npx_cmd_where_programs_have_extensions() {
        let folder = tempfile::tempdir().unwrap();
        let found = |name: &str| with_extension(&folder.path().join(name), ".exe;;.cmd");
        program(folder.path(), "npx", 0o755);
        assert_eq!(found("npx"), None, "a script for another shell is no program");
        let cmd = program(folder.path(), "npx.cmd", 0o644);
        assert_eq!(found("npx"), Some(cmd.clone()));
        assert_eq!(found("npx.cmd"), Some(cmd));
        let dotted = program(folder.path(), "tool-1.2.exe", 0o644);
        assert_eq!(found("tool-1.2"), Some(dotted), "a point in the name is no extension");
    }

    #[test]
    fn a_file_that_may_not_run_is_passed_over() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        program(a.path(), "evi-some-tool", 0o644);
        let right = program(b.path(), "evi-some-tool", 0o755);
        let extra = env::join_paths([a.path(), b.path()]).unwrap().to_string_lossy().into_owned();
        assert_eq!(resolve_command("evi-some-tool", Some(&extra)), Ok(right));
    }

    #[test]
    fn a_missing_program_names_the_folders_searched() {
        let error = resolve_command("evi-no-such-tool", Some("/nowhere")).unwrap_err();
        assert_eq!(error.program, "evi-no-such-tool");
        assert_eq!(error.searched[0], PathBuf::from("/nowhere"));
        assert!(resolve_command("", None).is_err());
        assert!(resolve_command("/nowhere/tool", None).is_err());
    }

    #[test]
    fn a_child_finds_what_lies_beside_its_program() {
        let path = child_path(Path::new("/opt/some node/bin/npx"), None);
        assert!(env::split_paths(&path).any(|f| f == Path::new("/opt/some node/bin")));
    }

    #[test]
    fn a_relative_command_starts_from_the_folder_of_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let tool = program(folder.path(), "serve", 0o755);
        assert_eq!(
            resolve_in("./serve", None, Some(folder.path())).unwrap().canonicalize().unwrap(),
            tool.canonicalize().unwrap()
        );
    }
}
