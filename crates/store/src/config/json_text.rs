//! Puts single values, members and names into JSON text (comments and trailing commas allowed) and takes them out,
//! in the text's own style and without touching another byte. Knows nothing of servers and touches no file.

use std::ops::Range;

use jsonc_parser::{ast::Value, common::Ranged as _, tokens::Token};
use serde_json::Value as Json;

use super::json_layout::{Layout, Style, children, is_comment, members, preorder, span};

/// A text under edit. A place in it is the way from the root: the position of each member in its object or list.
/// Every edit answers `None`, and changes nothing, where the place is not there.
pub(crate) struct JsonText {
    text: String,
}

type Splice = (Range<usize>, String);

impl JsonText {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned() }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Looks at the value at a place.
    pub(crate) fn read<R>(&self, place: &[usize], look: impl FnOnce(&Value<'_>) -> R) -> Option<R> {
        Layout::of(&self.text)?.value(place).map(look)
    }

    /// Begins a text that has no value yet with a list of one.
    pub(crate) fn begin(&mut self, first: &Json) -> Option<()> {
        self.edit(|layout| layout.beginning(first))
    }

    /// Replaces a member's value.
    pub(crate) fn replace(&mut self, place: &[usize], value: &Json) -> Option<()> {
        self.edit(|layout| layout.replacement(place, value))
    }

    /// Replaces each text and number for which there is something new.
    pub(crate) fn replace_each(&mut self, new: impl Fn(&Value<'_>) -> Option<Json>) -> Option<()> {
        self.edit(|layout| {
            let all = layout.root.iter().flat_map(preorder);
            Some(all.filter_map(|old| Some((span(old), new(old)?.to_string()))).collect())
        })
    }

    /// Gives the member of an object another name.
    pub(crate) fn rename(&mut self, place: &[usize], name: &str) -> Option<()> {
        self.edit(|layout| {
            let (index, parent) = place.split_last()?;
            let property = layout.value(parent)?.as_object()?.properties.get(*index)?;
            Some(vec![(span(&property.name), Json::from(name).to_string())])
        })
    }

    /// Adds a member to an object (`name`) or a list: the first or the last one.
    pub(crate) fn insert(
        &mut self,
        container: &[usize],
        first: bool,
        name: Option<&str>,
        value: &Json,
    ) -> Option<()> {
        self.edit(|layout| layout.insertion(container, first, name, value))
    }

    /// Takes a member out with its separator and the comment on its own line. A comment on the line above goes
    /// too where it cannot be about anything else.
    pub(crate) fn remove(&mut self, place: &[usize]) -> Option<()> {
        self.edit(|layout| layout.removal(place))
    }

    fn edit(&mut self, plan: impl FnOnce(&Layout<'_>) -> Option<Vec<Splice>>) -> Option<()> {
        let mut splices = plan(&Layout::of(&self.text)?)?;
        splices.sort_by_key(|(range, _)| range.start);
        let (mut new, mut at) = (String::with_capacity(self.text.len() + 64), 0);
        for (range, text) in splices {
            new.push_str(self.text.get(at..range.start)?);
            new.push_str(&text);
            at = range.end;
        }
        new.push_str(self.text.get(at..)?);
        // Whatever a text was like: what comes out can be read.
        Layout::of(&new)?;
        self.text = new;
        Some(())
    }
}

impl Layout<'_> {
    fn replacement(&self, place: &[usize], value: &Json) -> Option<Vec<Splice>> {
        let (_, parent) = place.split_last()?;
        let old = self.value(place)?;
        let opens = match children(old).is_empty() {
            true => self.opens_members(self.value(parent)?),
            false => self.has_lines(old),
        };
        let indent = self.indent(old.start());
        let new = self.style(parent, true)?.render(value, opens.then_some(indent));
        Some(vec![(span(old), new)])
    }

    /// After the comments.
    fn beginning(&self, first: &Json) -> Option<Vec<Splice>> {
        if self.root.is_some() {
            return None;
        }
        let line_end = self.line_end();
        let style =
            Style { line_end, unit: "  ".into(), colon: ": ".into(), gap: " ".into(), pad: String::new() };
        let comments = self.text.trim_end().len();
        let before = if comments == 0 { "" } else { line_end };
        let first = style.render(first, Some("  "));
        let list = format!("{before}[{line_end}  {first}{line_end}]{line_end}");
        Some(vec![(comments..self.text.len(), list)])
    }

    fn insertion(
        &self,
        place: &[usize],
        first: bool,
        name: Option<&str>,
        value: &Json,
    ) -> Option<Vec<Splice>> {
        let container = self.value(place)?;
        let members = members(container);
        let (outer, inner) = (self.style(place, false)?, self.style(place, true)?);
        let opens = self.opens_members(container) && value.as_object().is_some_and(|o| !o.is_empty());
        let name = outer.name(name);
        let member = |indent: &str| format!("{name}{}", inner.render(value, opens.then_some(indent)));
        let (open, close) = (container.start() + 1, container.end() - 1);
        let (end, gap) = (outer.line_end, &outer.gap);

        let Some(beside) = (if first { members.first() } else { members.last() }) else {
            let last = self.previous(close)?;
            let (at, inside) = (last.range.end, &self.text[last.range.end..close]);
            let base = self.indent(if inside.contains('\n') { close } else { container.start() });
            let indent = match self.own_line(last.range.start).filter(|_| is_comment(last)) {
                Some(indent) => indent.to_owned(),
                None => format!("{base}{}", outer.unit),
            };
            return Some(vec![if self.has_lines(container) {
                (at..at, format!("{end}{indent}{}", member(&indent)))
            } else if opens {
                (at..close, format!("{end}{indent}{}{end}{base}", member(&indent)))
            } else {
                (at..at, format!("{inside}{}", member(base)))
            }]);
        };
        let line = self.own_line(beside.start);
        let member = member(line.unwrap_or_else(|| self.indent(beside.start)));
        if first {
            return Some(vec![match line {
                Some(indent) => {
                    let at = self.tail(open, true);
                    (at..at, format!("{end}{indent}{member},"))
                }
                None => (beside.start..beside.start, format!("{member},{gap}")),
            }]);
        }
        // A trailing comma stays one.
        let comma = self.comma_after(beside.end);
        let (after, trailing) = comma.map_or((beside.end, ""), |comma| (comma.end, ","));
        let separator = if trailing.is_empty() { "," } else { "" };
        let at = self.tail(after, line.is_some());
        Some(match line {
            Some(indent) => vec![
                (beside.end..beside.end, separator.to_owned()),
                (at..at, format!("{end}{indent}{member}{trailing}")),
            ],
            None => vec![(at..at, format!("{separator}{gap}{member}{trailing}"))],
        })
    }

    fn removal(&self, place: &[usize]) -> Option<Vec<Splice>> {
        let (&index, parent) = place.split_last()?;
        let members = members(self.value(parent)?);
        let member = members.get(index)?;
        let before = index.checked_sub(1).and_then(|i| members.get(i));
        let comma = self.comma_after(member.end);
        let end = comma.as_ref().map_or(member.end, |comma| comma.end);
        let mut splices = Vec::new();
        if let (None, Some(before)) = (&comma, before) {
            // The last one without a trailing comma: the one before it becomes that.
            let comma = self.comma_after(before.end)?;
            splices.push((self.space_before(comma.start)..comma.end, String::new()));
        }
        let tail = self.tail(end, true);
        let line_end = self.text[tail..]
            .find('\n')
            .map(|n| tail + n + 1)
            .filter(|after| self.text[tail..*after].trim().is_empty())
            .filter(|_| !self.text[member.end..end].contains('\n'));
        let range = match (self.own_line(member.start), line_end) {
            (Some(_), Some(after)) => {
                let comment = before.and_then(|_| self.own_comment(member.start, after));
                self.line_start(comment.unwrap_or(member.start))..after
            }
            _ if index + 1 < members.len() => member.start..self.next(end)?.range.start,
            _ => self.space_before(member.start)..end,
        };
        splices.push((range, String::new()));
        Some(splices)
    }

    /// The comment on the line above a member, where it is about this member only: prose of one line, and what
    /// follows the member is not another one that it could be the heading of.
    fn own_comment(&self, member: usize, after: usize) -> Option<usize> {
        let directly = |from: usize, to: usize| self.text[from..to].matches('\n').count() == 1;
        let comment = self.previous(member).filter(|t| is_comment(t))?;
        let (start, end) = (comment.range.start, comment.range.end);
        let text = &self.text[start..end];
        let in_line = self.own_line(start) == self.own_line(member) && directly(end, member);
        let prose = !text.contains(['"', '{', '}', '\n']);
        let above = self.previous(start)?;
        let alone = !(is_comment(above)
            && self.own_line(above.range.start).is_some()
            && directly(above.range.end, start));
        let next = self.next(after)?;
        let closes = matches!(next.token, Token::CloseBrace | Token::CloseBracket);
        let parted = is_comment(next) || closes || self.text[after..next.range.start].contains('\n');
        (in_line && prose && alone && parted).then_some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::dialect;
    use jsonc_parser::parse_to_serde_value;
    use serde_json::json;

    fn meaning(text: &str) -> Json {
        parse_to_serde_value(text, &dialect()).unwrap()
    }

    /// Every way to write two members between brackets that the parts below make up.
    fn odd_texts() -> Vec<String> {
        let spaces = ["", " ", "\n  ", " // c\n", "/* c */", "\r\n\t/* c\n */ ", "\n\n // c\n // d\n\t"];
        let mut all = Vec::new();
        for [a, b] in [["[1", "[2]]"], ["{\"a\":1", "\"b\" : {\"c\":2}}"], ["[{\n\"a\": []}", "{ \"b\":2 }]"]]
        {
            let (open, a) = a.split_at(1);
            let (b, close) = b.split_at(b.len() - 1);
            for s in spaces {
                for t in spaces {
                    for u in spaces {
                        all.push(format!("{s}{open}{t}{a}{u},{s}{b}{t}{close}{u}"));
                        all.push(format!("{u}{open}{s}{a}{t},{u}{b}{s},{t}{close}"));
                        all.push(format!("{open}{s}{b}{t},{u}{close}"));
                        all.push(format!("{open}{s}{t}{u}{close}"));
                    }
                }
            }
        }
        all
    }

    #[test]
    fn whatever_the_text_an_edit_means_what_it_says_and_keeps_the_rest() {
        for text in odd_texts() {
            let before = meaning(&text);
            let list = before.is_array();
            let count = before.as_array().map_or_else(|| before.as_object().unwrap().len(), Vec::len);
            for new in [json!(false), json!({"x": {"y": [1, "2"]}, "z": null})] {
                for first in [true, false] {
                    let mut json = JsonText::new(&text);
                    json.insert(&[], first, (!list).then_some("new"), &new).unwrap();
                    let mut wanted = before.clone();
                    match &mut wanted {
                        Json::Array(items) => items.insert(if first { 0 } else { count }, new.clone()),
                        other => other["new"] = new.clone(),
                    }
                    assert_eq!(meaning(json.as_str()), wanted, "{text:?} became {:?}", json.as_str());
                    // What was there is there in order; nothing is lost.
                    let mut rest = json.as_str().chars();
                    assert!(text.chars().all(|c| c.is_whitespace() || rest.any(|r| r == c)), "{text:?}");
                }
            }
            for index in 0..count {
                let mut json = JsonText::new(&text);
                json.remove(&[index]).unwrap();
                let mut wanted = before.clone();
                match &mut wanted {
                    Json::Array(items) => drop(items.remove(index)),
                    Json::Object(map) => drop(map.shift_remove(&map.keys().nth(index).unwrap().clone())),
                    _ => {}
                }
                assert_eq!(meaning(json.as_str()), wanted, "{text:?} became {:?}", json.as_str());
                let mut json = JsonText::new(&text);
                json.replace(&[index], &json!("new")).unwrap();
                assert_eq!(json.as_str().matches("\"new\"").count(), 1);
            }
        }
    }

    #[test]
    fn a_place_that_is_not_there_changes_nothing() {
        let mut json = JsonText::new("[1]");
        assert_eq!(json.remove(&[1]), None);
        assert_eq!(json.remove(&[]), None);
        assert_eq!(json.rename(&[0], "a"), None);
        assert_eq!(json.begin(&json!(1)), None);
        assert_eq!(json.as_str(), "[1]");
    }
}
