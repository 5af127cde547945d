//! Finds memories by their words: plain counting of terms in name, tags and body; no index, no disk.

use super::entry::Entry;

/// The longest excerpt, in characters.
const EXCERPT_CHARS: usize = 160;

/// A memory that was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hit {
    /// Which.
    pub(crate) entry: Entry,
    /// How well it fits; higher is better, comparable only within one search.
    pub(crate) score: f64,
    /// The first line that holds a term, or the summary.
    pub(crate) excerpt: String,
}

/// The best `k` memories for a query, best first, by name where they tie.
pub(crate) fn search(entries: Vec<Entry>, query: &str, k: usize) -> Vec<Hit> {
    let terms = words(query);
    let mut hits: Vec<Hit> = entries
        .into_iter()
        .filter_map(|entry| {
            let score = score(&entry, &terms);
            (score > 0.0).then(|| Hit { excerpt: excerpt(&entry, &terms), score, entry })
        })
        .collect();
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.entry.name.cmp(&b.entry.name)));
    hits.truncate(k);
    hits
}

fn words(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()) {
        if !found.iter().any(|f| f == word) {
            found.push(word.to_owned());
        }
    }
    found
}

/// A word of the name counts 4, a tag 3, in the body 1 and a little more for each time it is repeated; a part of
/// a word counts half. Entries that hold every term come before those that hold some.
fn score(entry: &Entry, terms: &[String]) -> f64 {
    let name = words(&entry.name);
    let body = entry.body.to_lowercase();
    let body_words: Vec<&str> =
        body.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
    let mut total = 0.0;
    let mut held = 0;
    for term in terms {
        let mut points = 0.0;
        points += weigh(name.iter().map(String::as_str), term) * 4.0;
        points += weigh(entry.tags.iter().map(String::as_str), term) * 3.0;
        let exact = body_words.iter().filter(|w| **w == term.as_str()).count();
        if exact > 0 {
            points += 1.0 + (exact as f64).ln() * 0.25;
        } else if body.contains(term.as_str()) {
            points += 0.5;
        }
        if points > 0.0 {
            held += 1;
        }
        total += points;
    }
    if held == terms.len() && held > 1 { total + 10.0 } else { total }
}

fn weigh<'w>(words: impl Iterator<Item = &'w str>, term: &str) -> f64 {
    words
        .map(|w| {
            if w == term {
                1.0
            } else if w.contains(term) {
                0.5
            } else {
                0.0
            }
        })
        .fold(0.0, f64::max)
}

fn excerpt(entry: &Entry, terms: &[String]) -> String {
    let line = entry.body.lines().find(|line| {
        let line = line.to_lowercase();
        terms.iter().any(|t| line.contains(t.as_str()))
    });
    match line {
        Some(line) => line.trim().chars().take(EXCERPT_CHARS).collect(),
        None => entry.summary(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, body: &str, tags: &[&str]) -> Entry {
        let tags = tags.iter().map(|t| (*t).to_owned()).collect();
        Entry { name: name.to_owned(), body: body.to_owned(), tags }
    }

    #[test]
    fn names_come_before_tags_before_bodies_and_all_terms_before_some() {
        let entries = vec![
            entry("notes", "the coffee machine", &[]),
            entry("coffee", "x", &[]),
            entry("drinks", "y", &["coffee"]),
            entry("other", "tea", &[]),
        ];
        let names = |q: &str| -> Vec<String> {
            search(entries.clone(), q, 10).into_iter().map(|h| h.entry.name).collect()
        };
        assert_eq!(names("Coffee"), ["coffee", "drinks", "notes"]);
        assert_eq!(names("coffee machine")[0], "notes");
        assert!(names("!!").is_empty());
        assert_eq!(search(entries.clone(), "coffee", 1).len(), 1);
    }
}
