//! The official conformance suite; it claims nothing before the suite really runs.

use crate::Misuse;
use anyhow::Result;

/// Ends with status 2 and the reason: the gateway has no profile yet that the suite's runner could use.
pub fn conformance() -> Result<()> {
    let reason = "the conformance suite comes with the next work on upstreams and gateway\n\
                  hint: it needs a fixture server and a gateway profile without prefix and token; nothing was run";
    Err(Misuse(reason.to_owned()).into())
}
