//! One run of the command `evi`: what it printed, and how it ended.

use std::ffi::OsStr;

use crate::{House, LIMIT};

/// What a command said.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    /// Its exit status.
    pub status: i32,
    /// Its output.
    pub out: String,
    /// Its error output.
    pub err: String,
}

impl House {
    /// Runs `evi` with these arguments to its end.
    pub async fn evi<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Said {
        self.evi_with(arguments, &[]).await
    }

    /// Runs `evi` with these arguments and environment to its end.
    pub async fn evi_with<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        environment: &[(&str, &str)],
    ) -> Said {
        let run = self.command().args(arguments).envs(environment.iter().copied()).output();
        let output = tokio::time::timeout(LIMIT, run).await.expect("evi ends in time").unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said {
            status: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }
}

impl Said {
    /// Its output, once it is sure that it ended well and said nothing on the side.
    #[track_caller]
    pub fn done(self) -> String {
        assert_eq!((self.status, self.err.as_str()), (0, ""), "output: {}", self.out);
        self.out
    }

    /// Its error output, once it is sure that it ended with `status` and gave no data.
    #[track_caller]
    pub fn failed(self, status: i32) -> String {
        assert_eq!((self.status, self.out.as_str()), (status, ""), "error output: {}", self.err);
        self.err
    }
}
