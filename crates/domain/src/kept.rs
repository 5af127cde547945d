//! Results that are too large to be passed on whole: the port that keeps them, and how they are read by page. Who may
//! call what is not decided here.

use serde::{Deserialize, Serialize};

use crate::{Caller, ResultId, ToolAddress, ToolResult};

/// The category of the tool that reads kept results. It is not among those that can be shared: a client of the gateway
/// gets every result whole, so it has none to read.
pub const CATEGORY: &str = "results";
/// The tool that reads them.
pub const READ_RESULT: &str = "read_result";
/// The characters of a page, where nobody says how many.
pub const PAGE: usize = 20_000;
/// The most characters of a page.
pub const MAX_PAGE: usize = 100_000;

/// The address of the tool that reads them.
pub fn read_result() -> ToolAddress {
    ToolAddress::builtin(CATEGORY, READ_RESULT)
}

/// How a kept result is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Flattened, as models read it.
    Text,
    /// Its JSON.
    Raw,
}

/// A part of a kept result. Counts are in characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The part.
    pub text: String,
    /// Where it begins.
    pub offset: usize,
    /// Where the next one begins, when there is one.
    pub next: Option<usize>,
    /// The whole.
    pub total: usize,
}

impl Page {
    /// Up to `limit` characters of `text` from `offset` on; beyond its end an empty part.
    pub fn of(text: &str, offset: usize, limit: usize) -> Self {
        let total = text.chars().count();
        let part: String = text.chars().skip(offset).take(limit).collect();
        let end = offset.saturating_add(limit);
        Self { text: part, offset, next: (end < total).then_some(end), total }
    }
}

/// Why a result was not kept or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeptError {
    /// No such handle, another's, or one whose result has gone: they look the same.
    #[error("there is no result {0}, or not any more")]
    NotThere(ResultId),
    /// The disk says no.
    #[error("{0}")]
    Failed(String),
}

/// Keeps results for those who made the calls. Calls touch the disk: use a blocking thread.
pub trait KeptResults: Send + Sync + 'static {
    /// Keeps a result for its caller.
    ///
    /// # Errors
    /// `Failed` when it is not kept.
    fn keep(&self, caller: &Caller, result: &ToolResult) -> Result<ResultId, KeptError>;
    /// Reads a part for the caller that it was kept for.
    ///
    /// # Errors
    /// `NotThere`; `Failed` when the disk says no.
    fn read(
        &self,
        caller: &Caller,
        id: &ResultId,
        form: Form,
        offset: usize,
        limit: usize,
    ) -> Result<Page, KeptError>;
    /// Removes what was kept for a caller.
    fn forget(&self, caller: &Caller);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_by_characters_to_the_end() {
        let text = "aä€😀b";
        let mut read = String::new();
        let mut next = Some(0);
        while let Some(offset) = next {
            let page = Page::of(text, offset, 2);
            assert_eq!((page.offset, page.total), (offset, 5));
            read.push_str(&page.text);
            next = page.next;
        }
        assert_eq!(read, text);
        assert_eq!(Page::of(text, 9, 2), Page { text: String::new(), offset: 9, next: None, total: 5 });
        assert_eq!(Page::of(text, usize::MAX, usize::MAX).next, None);
    }
}
