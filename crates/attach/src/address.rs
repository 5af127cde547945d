//! Where the owner listens and how that place is kept private; never touches a file that is no socket of ours.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::AttachError;

/// Socket addresses end at 104 (macOS) or 108 bytes (Linux); stay clear of both.
#[cfg(unix)]
const PATH_LIMIT: usize = 100;

/// Makes a folder that only this user can enter and gives its absolute path.
pub(crate) fn private_folder(path: &Path) -> Result<PathBuf, AttachError> {
    make_private(path).map_err(|source| AttachError::Folder { path: path.into(), source })
}

fn make_private(path: &Path) -> io::Result<PathBuf> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        }
    }
    fs::canonicalize(path)
}

/// Eight bytes of the home's path, in hexadecimal.
fn home_hash(run_dir: &Path) -> String {
    let digest = Sha256::digest(run_dir.as_os_str().as_encoded_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Where the owner `id` of `run_dir` (absolute) listens. The folder is there and private when this returns.
#[cfg(unix)]
pub(crate) fn choose(run_dir: &Path, _id: Uuid) -> Result<String, AttachError> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    choose_among(run_dir, runtime.as_deref(), &[&std::env::temp_dir(), Path::new("/tmp")])
}

/// A pipe has no folder; a new name each time, so that nobody can sit on it beforehand.
#[cfg(windows)]
pub(crate) fn choose(run_dir: &Path, id: Uuid) -> Result<String, AttachError> {
    Ok(format!(r"\\.\pipe\evi-{}-{}", home_hash(run_dir), id.simple()))
}

#[cfg(unix)]
fn choose_among(run_dir: &Path, runtime: Option<&Path>, temps: &[&Path]) -> Result<String, AttachError> {
    use std::os::unix::fs::MetadataExt;

    let fits = |path: PathBuf| path.into_os_string().into_string().ok().filter(|p| p.len() < PATH_LIMIT);
    if let Some(path) = fits(run_dir.join("owner.sock")) {
        return Ok(path);
    }
    let refuse = |path: &Path, source: io::Error| AttachError::Folder { path: path.to_path_buf(), source };
    let uid = fs::metadata(run_dir).map_err(|source| refuse(run_dir, source))?.uid();
    let hash = home_hash(run_dir);
    if let Some(dir) = runtime.filter(|dir| dir.is_absolute() && is_private(dir, uid))
        && let Some(path) = fits(dir.join(format!("evi-{hash}.sock")))
    {
        return Ok(path);
    }
    let mut last = refuse(run_dir, io::ErrorKind::InvalidFilename.into());
    for temp in temps {
        let dir = temp.join(format!("evi-{uid}-{hash}"));
        let Some(path) = fits(dir.join("owner.sock")) else { continue };
        let mut builder = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        match builder.create(&dir) {
            // Somebody else may have made a folder of this name in a place where everybody can.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => last = refuse(&dir, error),
            _ if is_private(&dir, uid) => return Ok(path),
            _ => last = refuse(&dir, io::ErrorKind::PermissionDenied.into()),
        }
    }
    Err(last)
}

/// A folder, no link, of this user and closed to all others.
#[cfg(unix)]
fn is_private(dir: &Path, uid: u32) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.uid() == uid && meta.mode() & 0o077 == 0)
}

/// Removes a socket that an owner left; anything else of that name stays where it is.
#[cfg(unix)]
pub(crate) fn remove_socket(address: &str) {
    use std::os::unix::fs::FileTypeExt;

    let path = Path::new(address);
    let ours = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| {
        name == "owner.sock"
            || (name.starts_with("evi-") && Path::new(name).extension() == Some("sock".as_ref()))
    });
    let is_socket = || fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    if ours
        && is_socket()
        && let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, address, "could not remove the socket of a former owner");
    }
}

/// Removes the folder that was made in the temporary one for this socket alone; one that is not empty stays.
#[cfg(unix)]
pub(crate) fn remove_own_folder(address: &str) {
    let path = Path::new(address);
    if path.file_name() == Some("owner.sock".as_ref())
        && let Some(folder) = path.parent()
        && folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("evi-"))
        && let Err(error) = fs::remove_dir(folder)
    {
        tracing::debug!(%error, address, "the folder of a socket stays");
    }
}

/// A pipe goes with its process.
#[cfg(windows)]
pub(crate) fn remove_socket(_address: &str) {}

/// A pipe has no folder.
#[cfg(windows)]
pub(crate) fn remove_own_folder(_address: &str) {}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn private(path: &Path) -> PathBuf {
        private_folder(path).unwrap()
    }

    #[test]
    fn a_short_folder_holds_its_own_socket() {
        let home = tempfile::tempdir().unwrap();
        let run = private(&home.path().join("run"));
        let address = choose_among(&run, None, &[]).unwrap();
        assert_eq!(Path::new(&address), run.join("owner.sock"));
        assert_eq!(fs::metadata(&run).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_long_folder_takes_the_runtime_folder_then_a_private_one_in_temp() {
        let home = tempfile::tempdir().unwrap();
        let run = private(&home.path().join("x".repeat(120)));
        let runtime = private(&home.path().join("rt"));
        let address = choose_among(&run, Some(&runtime), &[home.path()]).unwrap();
        assert!(address.starts_with(runtime.to_str().unwrap()), "{address}");

        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).unwrap();
        let address = choose_among(&run, Some(&runtime), &[home.path()]).unwrap();
        assert!(!address.starts_with(runtime.to_str().unwrap()), "{address}");
        let folder = Path::new(&address).parent().unwrap();
        assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_temp_folder_that_others_can_enter_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let run = private(&home.path().join("x".repeat(120)));
        let address = choose_among(&run, None, &[home.path()]).unwrap();
        let folder = Path::new(&address).parent().unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(choose_among(&run, None, &[home.path()]), Err(AttachError::Folder { .. })));
    }

    #[test]
    fn only_a_socket_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("owner.sock");
        fs::write(&path, "a file").unwrap();
        remove_socket(path.to_str().unwrap());
        assert!(path.exists());
    }
}
