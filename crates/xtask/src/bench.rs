//! Figures of the built product, printed as ratios with the machine beside them; never a test that can fail on time.

use crate::places::Places;
use crate::{Misuse, command};
use anyhow::Result;

/// The benchmark program: an example of the tests' package, so that it shares their client and server peers.
const PROGRAM: &str = "tests/bench/main.rs";

/// Builds the release `evi` and starts the benchmark program with its path.
pub fn bench(places: &Places) -> Result<()> {
    if !places.root.join(PROGRAM).is_file() {
        return Err(Misuse(format!("nothing is measured yet: {PROGRAM} is missing")).into());
    }
    command::run(command::cargo(&places.root).args(["build", "--release", "--package", "evi-cli"]))?;
    let mut bench = command::cargo(&places.root);
    bench.args(["run", "--release", "--package", "evi-tests", "--bin", "bench"]);
    bench.envs(crate::peers::environment(places)?);
    bench.env("EVI_BIN", places.target.join(format!("release/evi{}", std::env::consts::EXE_SUFFIX)));
    command::run(&mut bench)
}
