//! Figures of the built product, printed as ratios with the machine beside them; never a test that can fail on time.

use crate::places::Places;
use crate::{command, page, peers, system};
use anyhow::Result;

/// Builds the release programs, then runs `tests/bench` inside the private desktop session, so that the window's
/// memory is measured too.
pub fn bench(places: &Places) -> Result<()> {
    system::install(true, false)?;
    page::install_packages(places)?;
    page::build(places)?;
    peers::install(places)?;
    let packages = ["--package", "evi-cli", "--package", "evi-desktop", "--package", "evi-bench"];
    command::run(command::cargo(&places.root).args(["build", "--release"]).args(packages))?;
    let built = |name: &str| places.target.join(format!("release/{name}{}", std::env::consts::EXE_SUFFIX));
    let mut bench = if cfg!(target_os = "linux") {
        let mut session = std::process::Command::new("bash");
        session.arg(places.root.join("tests/support/session/session.sh")).arg(built("evi-bench"));
        session
    } else {
        std::process::Command::new(built("evi-bench"))
    };
    bench.envs(peers::environment(places)?);
    bench.env("EVI_BIN", built("evi")).env("EVI_DESKTOP", built("evi-desktop"));
    command::run(&mut bench)
}
