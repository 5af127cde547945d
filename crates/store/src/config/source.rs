//! The text of one configuration file and where things are in it. Strips and restores a byte order mark and
//! line ends; understands neither JSON nor TOML.

use std::path::Path;

use evi_domain::ConfigProblem;

use crate::{StoreError, atomic};

const BOM: &str = "\u{feff}";

/// A file's text without its byte order mark.
pub(crate) struct Source {
    file: String,
    text: String,
    bom: bool,
}

impl Source {
    /// Reads a file; `None` where there is none. A file that cannot be read or is no UTF-8 is a problem.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, ConfigProblem> {
        match atomic::read(path) {
            Ok(None) => Ok(None),
            Ok(Some(bytes)) => Self::decode(path, &bytes).map(Some),
            Err(StoreError::Io { source, .. }) => Err(ConfigProblem {
                file: path.display().to_string(),
                at: None,
                message: format!("could not read it: {source}"),
                whole_file: true,
            }),
            Err(other) => Err(ConfigProblem {
                file: path.display().to_string(),
                at: None,
                message: other.to_string(),
                whole_file: true,
            }),
        }
    }

    /// Takes a file's bytes.
    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<Self, ConfigProblem> {
        let file = path.display().to_string();
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                let bare = text.strip_prefix(BOM);
                Ok(Self { file, text: bare.unwrap_or(text).to_owned(), bom: bare.is_some() })
            }
            Err(e) => {
                let good = String::from_utf8_lossy(&bytes[..e.valid_up_to()]).into_owned();
                let at = position(good.trim_start_matches(BOM), usize::MAX);
                let message = "it is not UTF-8 text: save it in that encoding".to_owned();
                Err(ConfigProblem { file, at: Some(at), message, whole_file: true })
            }
        }
    }

    /// A file that is not there yet.
    pub(crate) fn empty(path: &Path) -> Self {
        Self { file: path.display().to_string(), text: String::new(), bom: false }
    }

    /// A text out of a file, for reading a part of it.
    pub(crate) fn of_text(text: String) -> Self {
        Self { file: String::new(), text, bom: false }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The file's bytes with another text: the same byte order mark, and CRLF where that was the rule.
    pub(crate) fn encode(&self, text: &str) -> Vec<u8> {
        let mut out = String::with_capacity(text.len() + 3);
        if self.bom {
            out.push_str(BOM);
        }
        if self.is_crlf() {
            out.push_str(&text.replace("\r\n", "\n").replace('\n', "\r\n"));
        } else {
            out.push_str(text);
        }
        out.into_bytes()
    }

    /// Whether every line ends in CRLF. A mixed file is left as the editing library leaves it.
    fn is_crlf(&self) -> bool {
        let all = self.text.matches('\n').count();
        all > 0 && all == self.text.matches("\r\n").count()
    }

    /// A problem with what is at a byte offset.
    pub(crate) fn problem(&self, offset: usize, message: impl Into<String>) -> ConfigProblem {
        ConfigProblem {
            file: self.file.clone(),
            at: Some(position(&self.text, offset)),
            message: message.into(),
            whole_file: false,
        }
    }

    /// A problem that makes the whole file unusable.
    pub(crate) fn unusable(&self, offset: usize, message: impl Into<String>) -> ConfigProblem {
        let problem = self.problem(offset, message);
        ConfigProblem { whole_file: true, message: lower(&problem.message), ..problem }
    }
}

/// A library's sentence as the beginning of ours.
fn lower(message: &str) -> String {
    let mut chars = message.chars();
    chars.next().map(|c| c.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// Line and column of a byte offset, both from 1, the column in characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let start = before.rfind('\n').map_or(0, |n| n + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_from_one_and_bytes_that_are_no_text_have_one_too() {
        assert_eq!(position("ä\nöx", 5), (2, 2));
        assert_eq!(position("", 9), (1, 1));
        let problem = Source::decode(Path::new("f"), b"\xef\xbb\xbfab\nc\xff").err().unwrap();
        assert_eq!((problem.at, problem.whole_file), (Some((2, 2)), true));
    }

    #[test]
    fn the_byte_order_mark_and_crlf_come_back() {
        let source = Source::decode(Path::new("f"), b"\xef\xbb\xbf{\r\n}\r\n").unwrap();
        assert_eq!(source.text(), "{\r\n}\r\n");
        assert_eq!(source.encode("{\n1\r\n}\n"), b"\xef\xbb\xbf{\r\n1\r\n}\r\n");
    }
}
