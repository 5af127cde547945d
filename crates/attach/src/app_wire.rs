//! The lines between a process and the owner's application: commands one way, results and events the other.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::bytes::Bytes;

/// To the owner.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Asked {
    /// Run a command.
    Call {
        id: u64,
        command: String,
        #[serde(default)]
        params: Value,
    },
    /// The caller no longer waits.
    Cancel { cancel: u64 },
}

/// From the owner.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Told {
    /// It was done.
    Result { id: u64, result: Value },
    /// It was not.
    Problem { id: u64, problem: Value },
    /// Something happened.
    Event { event: Value },
}

/// One line.
pub(crate) fn line<T: Serialize>(value: &T) -> Option<Bytes> {
    let mut line = serde_json::to_vec(value).ok()?;
    line.push(b'\n');
    Some(line.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_nothing_is_a_result() {
        let told: Told = serde_json::from_str(r#"{"id":1,"result":null}"#).unwrap();
        assert!(matches!(told, Told::Result { id: 1, result: Value::Null }));
        let asked: Asked = serde_json::from_str(r#"{"id":1,"command":"chat_list"}"#).unwrap();
        assert!(matches!(asked, Asked::Call { id: 1, .. }));
    }
}
