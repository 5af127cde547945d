//! Puts single values, members and names into JSON text (comments and trailing commas allowed) and takes them out,
//! in the text's own style and without touching another byte. Knows nothing of servers and touches no file.

use std::{iter, ops::Range};

use jsonc_parser::{
    CollectOptions, CommentCollectionStrategy,
    ast::Value,
    common::Ranged,
    parse_to_ast,
    tokens::{Token, TokenAndRange},
};
use serde_json::Value as Json;

use super::mcp_read::dialect;

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

fn span(node: &impl Ranged) -> Range<usize> {
    node.start()..node.end()
}

/// A value and all within it.
fn preorder<'v, 't>(value: &'v Value<'t>) -> Vec<&'v Value<'t>> {
    let inner = children(value).into_iter().flat_map(preorder);
    iter::once(value).chain(inner).collect()
}

fn children<'v, 't>(value: &'v Value<'t>) -> Vec<&'v Value<'t>> {
    match value {
        Value::Object(object) => object.properties.iter().map(|p| &p.value).collect(),
        Value::Array(list) => list.elements.iter().collect(),
        _ => Vec::new(),
    }
}

/// Where the members of an object or a list are.
fn members(value: &Value<'_>) -> Vec<Range<usize>> {
    match value {
        Value::Object(object) => object.properties.iter().map(span).collect(),
        Value::Array(list) => list.elements.iter().map(span).collect(),
        _ => Vec::new(),
    }
}

fn is_comment(token: &TokenAndRange<'_>) -> bool {
    matches!(token.token, Token::CommentLine(_) | Token::CommentBlock(_))
}

/// How a text is written around some place.
struct Style {
    line_end: &'static str,
    /// One step of indentation.
    unit: String,
    /// Between a name and its value.
    colon: String,
    /// After a comma on one line.
    gap: String,
    /// Inside of the braces of an object on one line.
    pad: String,
}

impl Style {
    /// With an indentation an object is opened over lines; lists are on one line.
    fn render(&self, value: &Json, indent: Option<&str>) -> String {
        match value {
            Json::Object(map) if !map.is_empty() => {
                let deeper = indent.map(|indent| format!("{indent}{}", self.unit));
                let members =
                    map.iter().map(|(name, v)| self.name(Some(name)) + &self.render(v, deeper.as_deref()));
                let members: Vec<String> = members.collect();
                match (indent, deeper) {
                    (Some(indent), Some(deeper)) => {
                        let end = self.line_end;
                        let lines = members.join(&format!(",{end}{deeper}"));
                        format!("{{{end}{deeper}{lines}{end}{indent}}}")
                    }
                    _ => format!("{{{pad}{}{pad}}}", members.join(&format!(",{}", self.gap)), pad = self.pad),
                }
            }
            Json::Array(list) => {
                let items: Vec<String> = list.iter().map(|v| self.render(v, None)).collect();
                format!("[{}]", items.join(&format!(",{}", self.gap)))
            }
            scalar => scalar.to_string(),
        }
    }

    /// The part of a member before its value; of a list's member nothing.
    fn name(&self, name: Option<&str>) -> String {
        name.map(|name| format!("{}{}", Json::from(name), self.colon)).unwrap_or_default()
    }
}

/// A text and where everything in it is.
struct Layout<'t> {
    text: &'t str,
    root: Option<Value<'t>>,
    /// Comments included; between them is only white space.
    tokens: Vec<TokenAndRange<'t>>,
}

impl<'t> Layout<'t> {
    fn of(text: &'t str) -> Option<Self> {
        let collect = CollectOptions { comments: CommentCollectionStrategy::AsTokens, tokens: true };
        let parsed = parse_to_ast(text, &collect, &dialect()).ok()?;
        Some(Self { text, root: parsed.value, tokens: parsed.tokens.unwrap_or_default() })
    }

    fn value(&self, place: &[usize]) -> Option<&Value<'t>> {
        self.way(place)?.last().copied()
    }

    /// The values from the root to a place.
    fn way(&self, place: &[usize]) -> Option<Vec<&Value<'t>>> {
        let mut way = vec![self.root.as_ref()?];
        for index in place {
            way.push(children(way.last()?).get(*index)?);
        }
        Some(way)
    }

    fn next(&self, at: usize) -> Option<&TokenAndRange<'t>> {
        self.tokens.iter().find(|t| t.range.start >= at)
    }

    fn previous(&self, at: usize) -> Option<&TokenAndRange<'t>> {
        self.tokens.iter().rev().find(|t| t.range.end <= at)
    }

    fn comma_after(&self, at: usize) -> Option<Range<usize>> {
        let token = self.tokens.iter().find(|t| t.range.start >= at && !is_comment(t))?;
        (token.token == Token::Comma).then(|| span(token))
    }

    fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |n| n + 1)
    }

    /// The indentation of what is first on its line.
    fn own_line(&self, at: usize) -> Option<&'t str> {
        let before = &self.text[self.line_start(at)..at];
        before.trim().is_empty().then_some(before)
    }

    /// The indentation of the line.
    fn indent(&self, at: usize) -> &'t str {
        let line = &self.text[self.line_start(at)..];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }

    /// The end of the comments that follow on the same line.
    fn tail(&self, mut at: usize, line_comments: bool) -> usize {
        while let Some(token) = self.next(at).filter(|t| {
            is_comment(t)
                && (line_comments || matches!(t.token, Token::CommentBlock(_)))
                && !self.text[at..t.range.start].contains('\n')
        }) {
            at = token.range.end;
        }
        at
    }

    /// Where the white space before something begins; the end of a line comment is none.
    fn space_before(&self, at: usize) -> usize {
        match self.previous(at) {
            Some(t) if matches!(t.token, Token::CommentLine(_)) => {
                self.text[t.range.end..at].find('\n').map_or(at, |n| t.range.end + n + 1)
            }
            Some(t) => t.range.end,
            None => at,
        }
    }

    /// The style in which something of a container's, or with `inner` something in its members, is written. What is
    /// nearest shows it.
    fn style(&self, place: &[usize], inner: bool) -> Option<Style> {
        let mut shown: Vec<&Value<'t>> = self.way(place)?;
        shown.reverse();
        if inner {
            shown.splice(0..0, children(shown[0]).into_iter().flat_map(preorder));
        }
        shown.extend(self.root.iter().flat_map(preorder));
        let find = |look: &dyn Fn(&Value<'t>) -> Option<&'t str>| shown.iter().find_map(|v| look(v));
        let colon = find(&|v| {
            let property = v.as_object()?.properties.first()?;
            let colon = &self.text[property.name.end()..property.value.start()];
            (colon.trim() == ":" && !colon.contains('\n')).then_some(colon)
        })
        .unwrap_or(": ");
        let gap = find(&|v| {
            let members = members(v);
            let mut between = members.windows(2).map(|pair| &self.text[pair[0].end..pair[1].start]);
            between
                .find(|text| text.trim() == "," && !text.contains('\n'))?
                .split_once(',')
                .map(|(_, gap)| gap)
        });
        let pad = find(&|v| {
            let pad = &self.text[v.start() + 1..v.as_object()?.properties.first()?.start()];
            (pad.trim().is_empty() && !pad.contains('\n')).then_some(pad)
        });
        let unit = find(&|v| {
            let inner = self.own_line(members(v).first()?.start)?;
            inner.strip_prefix(self.indent(v.start())).filter(|unit| !unit.is_empty())
        });
        Some(Style {
            line_end: self.line_end(),
            unit: unit.unwrap_or("  ").to_owned(),
            gap: gap.unwrap_or(if colon.ends_with(' ') { " " } else { "" }).to_owned(),
            colon: colon.to_owned(),
            pad: pad.unwrap_or_default().to_owned(),
        })
    }

    fn line_end(&self) -> &'static str {
        let crlf = self.text.split_once('\n').is_some_and(|(line, _)| line.ends_with('\r'));
        if crlf { "\r\n" } else { "\n" }
    }

    fn has_lines(&self, value: &Value<'_>) -> bool {
        self.text[span(value)].contains('\n')
    }

    /// Whether an object among a container's members is opened over lines: as its neighbours are, and as far as
    /// there are none, as what is around it is.
    fn opens_members(&self, container: &Value<'_>) -> bool {
        let all = children(container);
        let mut objects = all.iter().filter(|v| v.as_object().is_some_and(|o| !o.properties.is_empty()));
        match self.has_lines(container) {
            false if !all.is_empty() => false,
            false => self.root.as_ref().is_some_and(|r| r.start() == container.start() || self.has_lines(r)),
            true => objects.clone().next().is_none() || objects.any(|v| self.has_lines(v)),
        }
    }

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
