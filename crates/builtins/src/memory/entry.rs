//! One memory's file as text: body, tags in the last line, summary; no disk.

/// The longest summary, in characters.
const SUMMARY_CHARS: usize = 160;
/// The longest name, in characters.
const NAME_CHARS: usize = 64;

/// A memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its name, which is its file's name without `.md`.
    pub(crate) name: String,
    /// Its text, without the line of tags.
    pub(crate) body: String,
    /// Lower-cased, trimmed, unique, in the order they were written.
    pub(crate) tags: Vec<String>,
}

impl Entry {
    /// Reads a file's text.
    pub(crate) fn parse(name: &str, text: &str) -> Self {
        let (body, tags) = split_tags(text);
        Self { name: name.to_owned(), body, tags }
    }

    /// The text of its file.
    pub(crate) fn render(&self) -> String {
        let body = self.body.trim_end_matches(['\n', '\r']);
        match (body.is_empty(), self.tags.is_empty()) {
            (true, true) => "\n".to_owned(),
            (false, true) => format!("{body}\n"),
            (true, false) => format!("<!-- tags: {} -->\n", self.tags.join(", ")),
            (false, false) => format!("{body}\n\n<!-- tags: {} -->\n", self.tags.join(", ")),
        }
    }

    /// The first non-empty line without heading marks, at most 160 characters.
    pub(crate) fn summary(&self) -> String {
        let line =
            self.body.lines().map(|line| line.trim().trim_start_matches('#').trim()).find(|l| !l.is_empty());
        line.unwrap_or_default().chars().take(SUMMARY_CHARS).collect()
    }
}

/// Whether a text can be a memory's name. Nothing else ever becomes part of a path.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=NAME_CHARS).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Whether a name is the one of the index. Without regard to case, since some file systems have none.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.eq_ignore_ascii_case("index")
}

/// Tags as they are kept: lower-cased, trimmed, unique. What would end the comment they stand in is left out.
pub(crate) fn normalize_tags<'t>(tags: impl IntoIterator<Item = &'t str>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for tag in tags {
        let clean: String =
            tag.replace("--", "-").chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let clean = clean.replace(['<', '>', ','], "").trim().to_lowercase();
        if !clean.is_empty() && !kept.contains(&clean) {
            kept.push(clean);
        }
    }
    kept
}

/// Parts a text into its body and the tags of its last line.
fn split_tags(text: &str) -> (String, Vec<String>) {
    let trimmed = text.trim_end();
    let (before, last) = trimmed.rsplit_once('\n').unwrap_or(("", trimmed));
    let tags = last
        .trim()
        .strip_prefix("<!--")
        .and_then(|rest| rest.strip_suffix("-->"))
        .and_then(|inner| inner.trim().strip_prefix("tags:"));
    match tags {
        Some(tags) => {
            let body = before.trim_end_matches(['\n', '\r', ' ', '\t']);
            let body = if body.is_empty() { String::new() } else { format!("{body}\n") };
            (body, normalize_tags(tags.split(',')))
        }
        None => (text.to_owned(), Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_original_reads_and_writes_the_same() {
        let text = "# Title here\n\nbody line\n\n<!-- tags: b, a -->\n";
        let entry = Entry::parse("alpha", text);
        assert_eq!(entry.body, "# Title here\n\nbody line\n");
        assert_eq!(entry.tags, ["b", "a"]);
        assert_eq!(entry.summary(), "Title here");
        assert_eq!(entry.render(), text);
        let plain = Entry::parse("b", "plain\n");
        assert_eq!((plain.render(), plain.tags.len()), ("plain\n".to_owned(), 0));
    }

    #[test]
    fn a_comment_inside_the_body_is_body() {
        let entry = Entry::parse("x", "a\n<!-- tags: no -->\nb\n");
        assert!(entry.tags.is_empty());
        assert!(entry.body.contains("tags: no"));
    }

    #[test]
    fn windows_line_ends_and_a_file_of_only_tags_are_read() {
        let entry = Entry::parse("x", "a\r\n\r\n<!-- tags: One , two,one -->\r\n");
        assert_eq!((entry.body.as_str(), entry.tags), ("a\n", vec!["one".to_owned(), "two".to_owned()]));
        assert_eq!(Entry::parse("x", "<!--tags: t-->").tags, ["t"]);
    }

    #[test]
    fn names_are_letters_digits_dash_and_underscore() {
        for good in ["a", "A-b_9", &"x".repeat(64)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "../x", "a/b", "a.b", "é", "a b", "..", "a\0", "a\n", &"x".repeat(65)] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_tag_cannot_break_out_of_its_comment() {
        let tags = normalize_tags(["a --> <b>", " X\ny ", "", "x y"]);
        let entry = Entry { name: "n".to_owned(), body: "t\n".to_owned(), tags: tags.clone() };
        assert_eq!(Entry::parse("n", &entry.render()).tags, tags);
    }
}
