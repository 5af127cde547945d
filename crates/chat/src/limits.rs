//! How much of tool results enters a model's context, relative to its window; and how a text is cut to it.

/// The window in tokens, where neither the configuration nor the endpoint says: what current local models are mostly
/// run with at least.
pub const DEFAULT_WINDOW: u32 = 32_768;
/// A token is about three bytes of UTF-8: less for English prose, about right for JSON, and for scripts with a token
/// and three bytes to each letter.
const BYTES_PER_TOKEN: usize = 3;
/// One result gets at most a quarter of the window, all results of a conversation together at most half.
const ONE_OF: usize = 4;
const ALL_OF: usize = 2;
/// The most of one result, whatever the window: from there on it is better read by page.
const MOST_CHARS: usize = 100_000;
/// The least of one result; a window that is smaller than that is a wrong number.
const LEAST_BYTES: usize = 600;

/// How much of results a model gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of one result.
    pub one_bytes: usize,
    /// The most characters of one result.
    pub one_chars: usize,
    /// The most bytes of all results of a conversation together.
    pub all_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self::of(None, 0)
    }
}

impl Limits {
    /// For a window in tokens, and a configured cap in characters (0: none).
    pub fn of(window: Option<u32>, cap_chars: usize) -> Self {
        let window = window.filter(|tokens| *tokens > 0).unwrap_or(DEFAULT_WINDOW);
        let bytes = usize::try_from(window).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
        let one_bytes = (bytes / ONE_OF).max(LEAST_BYTES);
        Self {
            one_bytes,
            one_chars: if cap_chars == 0 { MOST_CHARS } else { cap_chars.clamp(200, MOST_CHARS) },
            all_bytes: (bytes / ALL_OF).max(2 * one_bytes),
        }
    }

    /// The beginning of one result.
    pub fn fit<'t>(&self, text: &'t str) -> &'t str {
        beginning(text, self.one_bytes, self.one_chars)
    }
}

/// The longest beginning within both bounds that ends between two characters.
pub(crate) fn beginning(text: &str, bytes: usize, chars: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let part = &text[..end];
    // No text has more characters than bytes.
    match part.len() > chars {
        true => part.char_indices().nth(chars).map_or(part, |(at, _)| &part[..at]),
        false => part,
    }
}

/// A text of at most `most` characters, with a sign where it was cut.
pub(crate) fn short(text: &str, most: usize) -> String {
    let part = beginning(text, usize::MAX, most);
    if part.len() == text.len() { text.to_owned() } else { format!("{part}…") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i55_a_result_gets_a_share_of_the_window_and_no_more_than_is_configured() {
        assert_eq!(Limits::of(None, 0), Limits::of(Some(DEFAULT_WINDOW), 0));
        assert_eq!(Limits::of(Some(0), 0), Limits::default());
        let small = Limits::of(Some(4096), 0);
        assert_eq!((small.one_bytes, small.all_bytes), (3072, 6144));
        assert_eq!(Limits::of(Some(4096), 1000).one_chars, 1000);
        assert_eq!(Limits::of(Some(2_000_000), 0).one_chars, MOST_CHARS);
        assert_eq!(Limits::of(Some(1), 1), Limits { one_bytes: 600, one_chars: 200, all_bytes: 1200 });
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let limits = Limits { one_bytes: 5, one_chars: 100, all_bytes: 10 };
        assert_eq!(limits.fit("ääää"), "ää");
        assert_eq!(limits.fit("ab"), "ab");
        assert_eq!(Limits { one_bytes: 100, one_chars: 3, all_bytes: 1 }.fit("äbcd"), "äbc");
        assert_eq!(short("😀😀", 1), "😀…");
        assert_eq!(short("ab", 2), "ab");
    }
}
