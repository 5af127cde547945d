//! Folders of command templates as prompts: reads them and puts arguments in, in one pass; never reads a file
//! that an argument names.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use evi_domain::{PromptDef, PromptText, SurfacePrompt};
use serde_json::{Map, Value, json};

/// The largest template, in bytes.
const MAX_TEMPLATE: u64 = 1 << 20;
/// The deepest sub-folder.
const MAX_DEPTH: usize = 8;

/// The folder `commands/` of a home, or of a plugin.
#[derive(Clone, Debug)]
pub(crate) struct CommandFolder {
    root: PathBuf,
    /// What stands before every name: empty, or `<plugin>:`.
    prefix: String,
}

/// A template as it was read.
#[derive(Debug, PartialEq, Eq)]
struct Template {
    description: Option<String>,
    hint: Option<String>,
    body: String,
}

impl CommandFolder {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, prefix: String::new() }
    }

    /// That of a plugin, whose name its commands bear.
    pub(crate) fn of_plugin(plugin: &str, root: PathBuf) -> Self {
        Self { root, prefix: format!("{plugin}:") }
    }

    /// The names of all templates, whether they can be read or not.
    pub(crate) fn names(&self) -> Vec<String> {
        self.files().into_keys().collect()
    }

    /// When a template last came or went.
    pub(crate) fn modified(&self) -> Option<SystemTime> {
        self.root.metadata().and_then(|m| m.modified()).ok()
    }

    /// Every template that can be read, by name.
    pub(crate) fn prompts(&self) -> Vec<SurfacePrompt> {
        let files = self.files();
        let read = files.iter().filter_map(|(name, path)| match read(path) {
            Ok(template) => Some(prompt(name, &template)),
            Err(problem) => {
                tracing::warn!(template = %path.display(), %problem, "a command template is left out");
                None
            }
        });
        read.collect()
    }

    /// A template with its arguments put in; `None` when there is none of that name, or it cannot be read.
    pub(crate) fn get(&self, name: &str, args: &str) -> Option<PromptText> {
        // Looked up among the files that are there, so that a name never becomes a path.
        let path = self.files().remove(name)?;
        match read(&path) {
            Ok(template) => {
                Some(PromptText { text: expand(&template.body, args), description: describe(&template) })
            }
            Err(problem) => {
                tracing::warn!(template = %path.display(), %problem, "a command template cannot be read");
                None
            }
        }
    }

    fn files(&self) -> BTreeMap<String, PathBuf> {
        let mut files = BTreeMap::new();
        collect(&self.root, &self.prefix, 0, &mut files);
        files
    }
}

fn collect(folder: &Path, prefix: &str, depth: usize, files: &mut BTreeMap<String, PathBuf>) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return,
        Err(problem) => {
            tracing::warn!(folder = %folder.display(), %problem, "a folder of command templates is left out");
            return;
        }
    };
    for entry in entries.flatten() {
        let (path, file_name) = (entry.path(), entry.file_name());
        let Some(name) = file_name.to_str() else { continue };
        // Not through links: a folder may lie within itself.
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            if is_word(name) && depth < MAX_DEPTH {
                collect(&path, &format!("{prefix}{name}:"), depth + 1, files);
            }
        } else if let Some(stem) = name.strip_suffix(".md").filter(|stem| is_word(stem))
            && path.is_file()
        {
            files.insert(format!("{prefix}{stem}"), path);
        }
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn read(path: &Path) -> io::Result<Template> {
    let mut text = String::new();
    File::open(path)?.take(MAX_TEMPLATE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_TEMPLATE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "larger than 1 MiB"));
    }
    Ok(parse(&text))
}

/// Parts the front matter (`key: value` lines between two `---`) from the body.
fn parse(text: &str) -> Template {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let mut template = Template { description: None, hint: None, body: String::new() };
    let Some((front, body)) = front_matter(&text) else {
        template.body = text;
        return template;
    };
    for line in front.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = unquote(value.trim());
        let value = (!value.is_empty()).then(|| value.to_owned());
        match key.trim() {
            "description" => template.description = value,
            "argument-hint" => template.hint = value,
            _ => {}
        }
    }
    template.body = body.to_owned();
    template
}

fn front_matter(text: &str) -> Option<(&str, &str)> {
    let (first, rest) = text.split_once('\n')?;
    if first.trim_end() != "---" {
        return None;
    }
    let mut offset = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&rest[..offset], &rest[offset + line.len()..]));
        }
        offset += line.len();
    }
    None
}

fn unquote(text: &str) -> &str {
    let inner = |quote: char| text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

fn describe(template: &Template) -> Option<String> {
    let first =
        || template.body.lines().map(|l| l.trim().trim_start_matches('#').trim()).find(|l| !l.is_empty());
    template.description.clone().or_else(|| first().map(|line| line.chars().take(160).collect()))
}

fn prompt(name: &str, template: &Template) -> SurfacePrompt {
    let hint = template.hint.as_deref().unwrap_or("text for the template");
    let mut def = Map::new();
    def.insert("name".to_owned(), name.into());
    if let Some(description) = describe(template) {
        def.insert("description".to_owned(), Value::String(description));
    }
    def.insert("arguments".to_owned(), json!([{"name": "args", "description": hint, "required": false}]));
    SurfacePrompt { name: name.into(), def: PromptDef(Arc::new(def)) }
}

/// Puts arguments in: `{args}` and `$ARGUMENTS` are the whole text, `$1` to `$9` its words as a shell parts them.
/// One pass over the template: what an argument brings in is never looked at again.
fn expand(template: &str, args: &str) -> String {
    // A quote that is never closed is no reason to lose the words.
    let words =
        shell_words::split(args).unwrap_or_else(|_| args.split_whitespace().map(str::to_owned).collect());
    let mut text = String::with_capacity(template.len() + args.len());
    let mut rest = template;
    while let Some(at) = rest.find(['{', '$']) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let digit = rest.strip_prefix('$').and_then(|r| r.chars().next()).and_then(|c| c.to_digit(10));
        if let Some(after) = rest.strip_prefix("{args}").or_else(|| rest.strip_prefix("$ARGUMENTS")) {
            text.push_str(args);
            rest = after;
        } else if let Some(place @ 1..=9) = digit {
            text.push_str(words.get(place as usize - 1).map_or("", String::as_str));
            rest = &rest[2..];
        } else {
            text.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_put_in_once_and_never_expanded() {
        assert_eq!(expand("a {args} b $ARGUMENTS", "x y"), "a x y b x y");
        assert_eq!(expand("$2 $1 $3.", r#"one "two words""#), "two words one .");
        assert_eq!(expand("{args}|$1", "$2 $ARGUMENTS {args}"), "$2 $ARGUMENTS {args}|$2");
        assert_eq!(expand("$1", r#"it's fine"#), "it's", "an open quote parts at spaces");
        assert_eq!(expand("costs $0 {other} $ä {", "z"), "costs $0 {other} $ä {");
    }

    #[test]
    fn front_matter_gives_description_and_hint() {
        let template = parse("---\ndescription: \"hello: x\"\nargument-hint: [a] [b]\nother: 1\n---\nbody\n");
        assert_eq!(template.description.as_deref(), Some("hello: x"));
        assert_eq!(template.hint.as_deref(), Some("[a] [b]"));
        assert_eq!(template.body, "body\n");
        assert_eq!(parse("---\nno end").body, "---\nno end");
        assert_eq!(describe(&parse("\n# Review\nx")).as_deref(), Some("Review"));
    }
}
