//! The vault over the real keychain of the session. Runs only where a session was made for it, because it writes:
//! with `EVI_TEST_KEYCHAIN=1`, or `=lock` where it may leave the keychain locked.
#![allow(clippy::unwrap_used)]

use evi_domain::{Secret, SecretId, SecretStore as _};
use evi_store::{Home, Prompting, Redactor, Vault};

#[test]
fn values_survive_in_the_real_keychain_whole_and_in_parts() {
    for name in ["EVI_TEST_KEYCHAIN", "DBUS_SESSION_BUS_ADDRESS"] {
        if std::env::var_os(name).is_none_or(|v| v.is_empty()) {
            println!("nothing was tested: {name} is not set");
            return;
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path().join("home"));
    let open = || Vault::open(home.clone(), Redactor::new(), Prompting::Never);
    let vault = open();
    vault.probe().unwrap();
    let id = SecretId::new("github.token");
    assert_eq!(vault.get(&id), Ok(None));
    for value in ["ghp_short".to_owned(), "é".repeat(3000), "again".to_owned()] {
        vault.set(&id, &Secret::new(value.as_str())).unwrap();
        assert_eq!(open().get(&id).unwrap().unwrap().expose(), value);
    }
    assert_eq!(open().ids(), vec![id.clone()]);
    let other = SecretId::new("other");
    vault.set(&other, &Secret::new("x".repeat(5000))).unwrap();
    vault.delete(&other).unwrap();
    assert_eq!(open().get(&other), Ok(None));
    #[cfg(target_os = "linux")]
    if std::env::var("EVI_TEST_KEYCHAIN").is_ok_and(|v| v == "lock") {
        lock();
        let begun = std::time::Instant::now();
        assert_eq!(open().get(&id), Err(evi_domain::SecretError::Locked));
        assert_eq!(open().set(&id, &Secret::new("other")), Err(evi_domain::SecretError::Locked));
        assert_eq!(open().probe(), Err(evi_domain::SecretError::Locked));
        assert_eq!(open().get(&SecretId::new("never.set")), Ok(None));
        assert!(begun.elapsed() < std::time::Duration::from_secs(2), "somebody was asked");
        // Unlocking takes a person: nothing more can be done in this session.
        return;
    }
    vault.delete(&id).unwrap();
    assert_eq!(open().get(&id), Ok(None));
}

#[cfg(target_os = "linux")]
fn lock() {
    let bus = zbus::blocking::Connection::session().unwrap();
    let (name, path) = ("org.freedesktop.secrets", "/org/freedesktop/secrets");
    let service = zbus::blocking::Proxy::new(&bus, name, path, "org.freedesktop.Secret.Service").unwrap();
    let collection: zbus::zvariant::OwnedObjectPath = service.call("ReadAlias", &"default").unwrap();
    let _: (Vec<zbus::zvariant::OwnedObjectPath>, zbus::zvariant::OwnedObjectPath) =
        service.call("Lock", &(vec![collection],)).unwrap();
}

#[test]
fn without_a_keychain_the_answer_comes_in_time_and_says_so() {
    if std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_some() || !cfg!(target_os = "linux") {
        println!("nothing was tested: there may be a keychain");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path().join("home"));
    let vault = Vault::open(home.clone(), Redactor::new(), Prompting::Never);
    let begun = std::time::Instant::now();
    assert!(vault.probe().is_err());
    assert!(begun.elapsed() < std::time::Duration::from_secs(4));
    let id = SecretId::new("a");
    assert!(vault.set(&id, &Secret::new("value")).is_err());
    assert_eq!((vault.get(&id), vault.ids()), (Ok(None), vec![]));
}
