//! What the operating system must have: it names each missing package and its purpose before it installs it, and on
//! systems whose packages it does not know it explains and stops.

use crate::command::{is_on_path, output, run};
use anyhow::{Result, bail};
use std::process::Command;

/// Debian and Ubuntu packages with their purpose, as shown to the person before they are installed.
type Packages = &'static [(&'static str, &'static str)];

const BUILD: Packages = &[
    ("build-essential", "C compiler and linker, for SQLite and the system libraries"),
    ("pkg-config", "finds the system libraries below"),
    ("libwebkit2gtk-4.1-dev", "the web view that shows the window's page"),
    ("libayatana-appindicator3-dev", "the icon in the system tray"),
    ("librsvg2-dev", "icons in menus"),
    ("libdbus-1-dev", "talks to the keychain and the desktop"),
];

const TEST: Packages = &[
    ("webkit2gtk-driver", "drives the real window in tests"),
    ("xvfb", "a screen without a monitor, for the real window"),
    ("openbox", "a window manager on that screen"),
    ("dbus-x11", "a private message bus for each test session"),
    ("gnome-keyring", "a real keychain for the tests"),
    ("libsecret-tools", "looks into that keychain from outside"),
    ("xdotool", "presses keys in the real window"),
    ("imagemagick", "takes pictures of the real window"),
    ("fonts-dejavu-core", "letters in pictures of page and window"),
    ("python3-dbus", "the tray of the test session"),
    ("python3-gi", "the tray of the test session"),
    ("python3-venv", "fetches Node 24 for test clients that need it"),
    ("chromium", "the browser for tests of the page"),
    ("git", "lists the repository's files for the tidy tests"),
];

const PACKAGE: Packages = &[
    ("rpm", "writes .rpm packages"),
    ("patchelf", "edits library paths in packaged programs"),
    ("desktop-file-utils", "checks the menu entry"),
    ("file", "tells the kind of a packaged file"),
];

/// Oldest Node.js that builds the page.
const NODE_MAJOR: u32 = 20;

/// Installs what is missing for building and, if asked, for testing and packaging; then checks Node.js.
pub fn install(tests: bool, packages: bool) -> Result<()> {
    let mut wanted: Vec<_> = BUILD.to_vec();
    if tests {
        wanted.extend(TEST);
    }
    if packages {
        wanted.extend(PACKAGE);
    }
    if cfg!(target_os = "linux") {
        if is_on_path("dpkg-query") && is_on_path("apt-get") {
            install_debian(&wanted)?;
        } else {
            explain_linux(tests)?;
        }
    } else {
        explain_elsewhere()?;
    }
    check_node()
}

fn install_debian(wanted: &[(&str, &str)]) -> Result<()> {
    // Where the distribution has Chromium in another form, as Ubuntu does, any that is there will do.
    let is_there =
        |name: &str| is_installed(name) || (name == "chromium" && crate::peers::chromium().is_some());
    let missing: Vec<_> = wanted.iter().filter(|(name, _)| !is_there(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("These system packages are missing and will be installed now:");
    for (name, purpose) in &missing {
        println!("  {name:<30} {purpose}");
    }
    run(as_root("apt-get")?.arg("update").args(["-q"]))?;
    let install = ["install", "--yes", "--no-install-recommends", "-q"];
    run(as_root("apt-get")?.args(install).args(missing.iter().map(|(name, _)| name)))
}

fn is_installed(package: &str) -> bool {
    let status =
        output(Command::new("dpkg-query").args(["--show", "--showformat=${db:Status-Status}\n", package]));
    // A package that is there for two architectures has two lines.
    status.is_some_and(|lines| lines.lines().any(|line| line == "installed"))
}

/// The program, through sudo only for a person who is not root.
fn as_root(program: &str) -> Result<Command> {
    let is_root = output(Command::new("id").arg("-u")).is_some_and(|id| id == "0");
    let mut command = if is_root {
        Command::new(program)
    } else if is_on_path("sudo") {
        let mut sudo = Command::new("sudo");
        sudo.args(["--preserve-env=DEBIAN_FRONTEND", program]);
        sudo
    } else {
        bail!(
            "installing packages needs root, and sudo is not there; install the packages above as root and try again"
        );
    };
    command.env("DEBIAN_FRONTEND", "noninteractive");
    Ok(command)
}

fn explain_linux(tests: bool) -> Result<()> {
    let libraries = ["webkit2gtk-4.1", "ayatana-appindicator3-0.1", "dbus-1"];
    let missing: Vec<_> = libraries
        .into_iter()
        .filter(|name| output(Command::new("pkg-config").args(["--exists", name])).is_none())
        .collect();
    if tests && missing.is_empty() {
        println!(
            "note: the window tests also need Xvfb, openbox, gnome-keyring, WebKitWebDriver and Chromium"
        );
    }
    if missing.is_empty() {
        return Ok(());
    }
    let system = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let hint = if system.contains("fedora") || system.contains("rhel") {
        "sudo dnf install gcc gcc-c++ make pkgconf-pkg-config webkit2gtk4.1-devel libayatana-appindicator-gtk3-devel \
         librsvg2-devel dbus-devel"
    } else if system.contains("arch") {
        "sudo pacman -S --needed base-devel webkit2gtk-4.1 libayatana-appindicator librsvg dbus"
    } else if system.contains("suse") {
        "sudo zypper install -t pattern devel_basis && sudo zypper install webkit2gtk3-devel \
         libayatana-appindicator3-devel librsvg-devel dbus-1-devel"
    } else {
        "install the development files of WebKitGTK 4.1, libayatana-appindicator 3, librsvg 2 and D-Bus, a C compiler \
         and pkg-config"
    };
    bail!("system libraries are missing: {}\nhint: {hint}", missing.join(", "))
}

fn explain_elsewhere() -> Result<()> {
    if cfg!(target_os = "macos") && output(Command::new("xcode-select").arg("-p")).is_none() {
        bail!("Apple's command line tools are missing\nhint: xcode-select --install");
    }
    if cfg!(windows) {
        println!(
            "note: the window needs WebView2, which Windows 11 has; on Windows 10 install \"Microsoft Edge WebView2 Runtime\""
        );
    }
    Ok(())
}

fn check_node() -> Result<()> {
    let hint =
        format!("install Node.js {NODE_MAJOR} or newer with npm, from nodejs.org or your system's packages");
    let Some(version) = output(Command::new("node").arg("--version")) else {
        bail!("Node.js was not found\nhint: {hint}");
    };
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < NODE_MAJOR) {
        bail!("Node.js {version} is too old\nhint: {hint}");
    }
    if output(crate::command::npm(std::path::Path::new(".")).arg("--version")).is_none() {
        bail!("npm was not found beside Node.js {version}\nhint: {hint}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_named_once_with_its_purpose() {
        let mut names: Vec<_> = [BUILD, TEST, PACKAGE].concat().iter().map(|(name, _)| *name).collect();
        assert!([BUILD, TEST, PACKAGE].concat().iter().all(|(_, purpose)| !purpose.is_empty()));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
