//! Where everything in a JSON text is (comments and trailing commas allowed), and in which style it is written around
//! some place. Changes nothing.

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

pub(super) fn span(node: &impl Ranged) -> Range<usize> {
    node.start()..node.end()
}

/// A value and all within it.
pub(super) fn preorder<'v, 't>(value: &'v Value<'t>) -> Vec<&'v Value<'t>> {
    let inner = children(value).into_iter().flat_map(preorder);
    iter::once(value).chain(inner).collect()
}

pub(super) fn children<'v, 't>(value: &'v Value<'t>) -> Vec<&'v Value<'t>> {
    match value {
        Value::Object(object) => object.properties.iter().map(|p| &p.value).collect(),
        Value::Array(list) => list.elements.iter().collect(),
        _ => Vec::new(),
    }
}

/// Where the members of an object or a list are.
pub(super) fn members(value: &Value<'_>) -> Vec<Range<usize>> {
    match value {
        Value::Object(object) => object.properties.iter().map(span).collect(),
        Value::Array(list) => list.elements.iter().map(span).collect(),
        _ => Vec::new(),
    }
}

pub(super) fn is_comment(token: &TokenAndRange<'_>) -> bool {
    matches!(token.token, Token::CommentLine(_) | Token::CommentBlock(_))
}

/// How a text is written around some place.
pub(super) struct Style {
    pub(super) line_end: &'static str,
    /// One step of indentation.
    pub(super) unit: String,
    /// Between a name and its value.
    pub(super) colon: String,
    /// After a comma on one line.
    pub(super) gap: String,
    /// Inside of the braces of an object on one line.
    pub(super) pad: String,
}

impl Style {
    /// With an indentation an object is opened over lines; lists are on one line.
    pub(super) fn render(&self, value: &Json, indent: Option<&str>) -> String {
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
    pub(super) fn name(&self, name: Option<&str>) -> String {
        name.map(|name| format!("{}{}", Json::from(name), self.colon)).unwrap_or_default()
    }
}

/// A text and where everything in it is.
pub(super) struct Layout<'t> {
    pub(super) text: &'t str,
    pub(super) root: Option<Value<'t>>,
    /// Comments included; between them is only white space.
    pub(super) tokens: Vec<TokenAndRange<'t>>,
}

impl<'t> Layout<'t> {
    pub(super) fn of(text: &'t str) -> Option<Self> {
        let collect = CollectOptions { comments: CommentCollectionStrategy::AsTokens, tokens: true };
        let parsed = parse_to_ast(text, &collect, &dialect()).ok()?;
        Some(Self { text, root: parsed.value, tokens: parsed.tokens.unwrap_or_default() })
    }

    pub(super) fn value(&self, place: &[usize]) -> Option<&Value<'t>> {
        self.way(place)?.last().copied()
    }

    /// The values from the root to a place.
    pub(super) fn way(&self, place: &[usize]) -> Option<Vec<&Value<'t>>> {
        let mut way = vec![self.root.as_ref()?];
        for index in place {
            way.push(children(way.last()?).get(*index)?);
        }
        Some(way)
    }

    pub(super) fn next(&self, at: usize) -> Option<&TokenAndRange<'t>> {
        self.tokens.iter().find(|t| t.range.start >= at)
    }

    pub(super) fn previous(&self, at: usize) -> Option<&TokenAndRange<'t>> {
        self.tokens.iter().rev().find(|t| t.range.end <= at)
    }

    pub(super) fn comma_after(&self, at: usize) -> Option<Range<usize>> {
        let token = self.tokens.iter().find(|t| t.range.start >= at && !is_comment(t))?;
        (token.token == Token::Comma).then(|| span(token))
    }

    pub(super) fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |n| n + 1)
    }

    /// The indentation of what is first on its line.
    pub(super) fn own_line(&self, at: usize) -> Option<&'t str> {
        let before = &self.text[self.line_start(at)..at];
        before.trim().is_empty().then_some(before)
    }

    /// The indentation of the line.
    pub(super) fn indent(&self, at: usize) -> &'t str {
        let line = &self.text[self.line_start(at)..];
        &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
    }

    /// The end of the comments that follow on the same line.
    pub(super) fn tail(&self, mut at: usize, line_comments: bool) -> usize {
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
    pub(super) fn space_before(&self, at: usize) -> usize {
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
    pub(super) fn style(&self, place: &[usize], inner: bool) -> Option<Style> {
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

    pub(super) fn line_end(&self) -> &'static str {
        let crlf = self.text.split_once('\n').is_some_and(|(line, _)| line.ends_with('\r'));
        if crlf { "\r\n" } else { "\n" }
    }

    pub(super) fn has_lines(&self, value: &Value<'_>) -> bool {
        self.text[span(value)].contains('\n')
    }

    /// Whether an object among a container's members is opened over lines: as its neighbours are, and as far as
    /// there are none, as what is around it is.
    pub(super) fn opens_members(&self, container: &Value<'_>) -> bool {
        let all = children(container);
        let mut objects = all.iter().filter(|v| v.as_object().is_some_and(|o| !o.properties.is_empty()));
        match self.has_lines(container) {
            false if !all.is_empty() => false,
            false => self.root.as_ref().is_some_and(|r| r.start() == container.start() || self.has_lines(r)),
            true => objects.clone().next().is_none() || objects.any(|v| self.has_lines(v)),
        }
    }
}
