//! Files that are whole or not there: read, compare, write aside, sync, rename. Never writes in place.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::StoreError;

/// How long an edit waits for the lock of another process.
const LOCK_WAIT: Duration = Duration::from_secs(10);
/// How often an edit starts anew when another program changed the file meanwhile.
const ATTEMPTS: usize = 50;

/// An advisory lock between eVi's processes, held until dropped.
pub(crate) struct FileLock {
    // Closing the file gives the lock back.
    _file: File,
}

impl FileLock {
    /// Takes the lock at `path`, creating the file where there is none.
    pub(crate) fn take(path: &Path) -> Result<Self, StoreError> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        private(&mut options);
        let file = options.open(path).map_err(StoreError::io("open", path))?;
        let end = Instant::now() + LOCK_WAIT;
        let mut pause = Duration::from_micros(200);
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) if Instant::now() < end => {
                    thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(10));
                }
                Err(TryLockError::WouldBlock) => return Err(StoreError::Busy { path: path.to_owned() }),
                Err(TryLockError::Error(e)) => return Err(StoreError::io("lock", path)(e)),
            }
        }
    }
}

/// Opens a new file for this user only.
#[cfg(unix)]
pub(crate) fn private(options: &mut fs::OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.mode(0o600);
}

#[cfg(not(unix))]
pub(crate) fn private(_: &mut fs::OpenOptions) {}

/// The bytes of a file; `None` where there is none.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io("read", path)(e)),
    }
}

/// Read-modify-write of a whole file: `change` gets what is there and gives what is to be there, or `None` for
/// no change. When another program wrote meanwhile it is called again with the newer content.
///
/// The caller holds the [`FileLock`]; the comparison is for programs that do not know of it.
pub(crate) fn update<E: From<StoreError>>(
    path: &Path,
    mut change: impl FnMut(Option<&[u8]>) -> Result<Option<Vec<u8>>, E>,
) -> Result<bool, E> {
    for _ in 0..ATTEMPTS {
        let old = read(path)?;
        let Some(new) = change(old.as_deref())? else { return Ok(false) };
        if old.as_ref() == Some(&new) {
            return Ok(false);
        }
        if replace(path, &new, Some(old.as_deref()))? {
            return Ok(true);
        }
    }
    Err(StoreError::Changing { path: path.to_owned() }.into())
}

/// Puts `bytes` at `path`, whole or not at all. Mode and symbolic link stay; a new file is 0600.
///
/// # Errors
/// `Io` with what could not be done.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    replace(path, bytes, None).map(|_| ())
}

/// Takes a file away; none is no error.
pub(crate) fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", path)(e)),
        _ => Ok(()),
    }
}

/// With `expected`, gives `false` and writes nothing when the file no longer has that content.
fn replace(path: &Path, bytes: &[u8], expected: Option<Option<&[u8]>>) -> Result<bool, StoreError> {
    let target = follow(path);
    let folder = target.parent().unwrap_or_else(|| Path::new("."));
    let name = target.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let mut temp = tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .suffix(".tmp")
        .tempfile_in(folder)
        .map_err(StoreError::io("write next to", &target))?;
    temp.write_all(bytes).map_err(StoreError::io("write", temp.path()))?;
    if let Ok(old) = fs::metadata(&target) {
        keep_owner_and_mode(temp.as_file(), &old).map_err(StoreError::io("set the mode of", temp.path()))?;
    }
    temp.as_file().sync_all().map_err(StoreError::io("sync", temp.path()))?;
    if let Some(expected) = expected
        && read(&target)?.as_deref() != expected
    {
        return Ok(false);
    }
    temp.persist(&target).map_err(|e| StoreError::io("replace", &target)(e.error))?;
    sync_folder(folder);
    Ok(true)
}

/// The file behind a symbolic link, also where that file is not there yet.
pub(crate) fn follow(path: &Path) -> PathBuf {
    let mut at = path.to_owned();
    // As many links in a row as Linux allows.
    for _ in 0..40 {
        match fs::read_link(&at) {
            Ok(next) if next.is_absolute() => at = next,
            Ok(next) => at = at.parent().unwrap_or_else(|| Path::new(".")).join(next),
            Err(_) => break,
        }
    }
    at
}

#[cfg(unix)]
fn keep_owner_and_mode(file: &File, old: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        // Only root may give files away; for anybody else the content matters more than the owner.
        let _ = std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()));
    }
    file.set_permissions(old.permissions())
}

#[cfg(not(unix))]
fn keep_owner_and_mode(_: &File, _: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

/// A rename is on disk for certain only when its folder is; a file system that cannot do that has its reasons.
fn sync_folder(folder: &Path) {
    if cfg!(unix)
        && let Ok(folder) = File::open(folder)
    {
        let _ = folder.sync_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_by_another_program_is_read_again_and_not_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "a").unwrap();
        let mut rounds = 0;
        update::<StoreError>(&path, |old| {
            rounds += 1;
            if rounds == 1 {
                fs::write(&path, "ab").unwrap();
            }
            Ok(Some([old.unwrap_or_default(), b"!"].concat()))
        })
        .unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), rounds), ("ab!", 2));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "a temporary file was left");
    }

    #[cfg(unix)]
    #[test]
    fn i64_mode_and_symbolic_link_stay_and_a_new_file_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        std::os::unix::fs::symlink("real", &link).unwrap();
        write(&link, b"1").unwrap();
        assert_eq!(mode(&real), 0o600);
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        write(&link, b"2").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!((fs::read_to_string(&real).unwrap().as_str(), mode(&real)), ("2", 0o640));
    }
}
