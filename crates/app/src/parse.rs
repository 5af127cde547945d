//! What a person pasted, understood: a command line, an address, or another application's settings block. It
//! guesses a name and never runs anything.

use evi_contract::{Code, DraftValue, ParsedUpstream, Problem, UpstreamDraft, UpstreamOptionsView};
use serde_json::Value;

/// Splits a pasted text into drafts of servers.
pub fn parse(text: &str) -> ParsedUpstream {
    let text = text.trim();
    if text.is_empty() {
        return ParsedUpstream::default();
    }
    let drafts = if text.starts_with(['{', '[']) || is_fragment(text) {
        block(text)
    } else if text.starts_with("http://") || text.starts_with("https://") {
        Ok(vec![address(text)])
    } else {
        command_line(text).map(|draft| vec![draft])
    };
    match drafts {
        Ok(drafts) => {
            let warnings = drafts.iter().flat_map(warnings).collect();
            ParsedUpstream { drafts, warnings, ..ParsedUpstream::default() }
        }
        Err(problem) => ParsedUpstream { problem: Some(problem), ..ParsedUpstream::default() },
    }
}

/// `"name": { … }`, as documentation often shows; a quoted program is not one.
fn is_fragment(text: &str) -> bool {
    let mut parts = text.splitn(3, '"');
    parts.next() == Some("")
        && parts.next().is_some()
        && parts.next().is_some_and(|rest| rest.trim_start().starts_with(':'))
}

fn address(url: &str) -> UpstreamDraft {
    let sse = url.trim_end_matches('/').ends_with("/sse");
    let host = url.split("://").nth(1).unwrap_or(url).split(['/', ':', '?']).next().unwrap_or("server");
    let labels: Vec<&str> = host.split('.').filter(|l| !["www", "mcp", "api"].contains(l)).collect();
    let name = match labels.as_slice() {
        [] => host,
        [only] => only,
        [.., name, _top] => name,
    };
    UpstreamDraft {
        name: tidy(name),
        transport: if sse { "sse" } else { "http" }.to_owned(),
        url: url.to_owned(),
        ..UpstreamDraft::default()
    }
}

fn command_line(text: &str) -> Result<UpstreamDraft, Problem> {
    let words = split(text)?;
    let mut words = words.into_iter().peekable();
    let mut env = Vec::new();
    // `KEY=value npx …`, as people copy it from a shell.
    while let Some((key, value)) = words.peek().and_then(|w| assignment(w)) {
        env.push(DraftValue { key, value: Some(value), secret: true });
        words.next();
    }
    let Some(command) = words.next() else {
        return Err(Problem::new(Code::InvalidInput, "there is no program in this line").field("command"));
    };
    let args: Vec<String> = words.collect();
    Ok(UpstreamDraft {
        name: name_of(&command, &args),
        transport: "stdio".to_owned(),
        command,
        args,
        env,
        ..UpstreamDraft::default()
    })
}

/// Splits a line as a shell would. Windows paths keep their backslashes.
pub fn split(text: &str) -> Result<Vec<String>, Problem> {
    let windows_path = text.contains(":\\") || text.contains("\\\\");
    let text = if windows_path { text.replace('\\', "\\\\") } else { text.to_owned() };
    shell_words::split(&text).map_err(|_| {
        Problem::new(Code::InvalidInput, "a quotation mark is not closed")
            .hint("close it, or put \\ before it")
    })
}

fn assignment(word: &str) -> Option<(String, String)> {
    let (key, value) = word.split_once('=')?;
    let mut chars = key.chars();
    let head = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    (head && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')).then(|| (key.to_owned(), value.to_owned()))
}

const RUNNERS: [&str; 13] =
    ["npx", "npm", "pnpm", "bunx", "bun", "uvx", "uv", "pipx", "node", "python", "python3", "docker", "deno"];
const SUBCOMMANDS: [&str; 8] = ["run", "exec", "dlx", "x", "tool", "-m", "--", "-y"];

/// A name for a server from what it runs: `npx -y @modelcontextprotocol/server-filesystem /x` is `filesystem`.
pub fn name_of(command: &str, args: &[String]) -> String {
    let program = file_stem(command);
    let what = if RUNNERS.contains(&program.as_str()) {
        args.iter()
            .find(|a| !a.starts_with('-') && !SUBCOMMANDS.contains(&a.as_str()))
            .map_or(program.as_str(), |a| a)
    } else {
        program.as_str()
    };
    // Package name without scope, version, and the words that say only that it is a server.
    let what = what.rsplit(['/', '\\']).next().unwrap_or(what);
    let what = what.split('@').find(|p| !p.is_empty()).unwrap_or(what);
    let what = file_stem(what);
    let words: Vec<&str> =
        what.split(['-', '_', '.']).filter(|w| !w.is_empty() && !["mcp", "server"].contains(w)).collect();
    let name = words.join("-");
    tidy(if name.is_empty() { &what } else { &name })
}

fn file_stem(path: &str) -> String {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    for end in [".exe", ".cmd", ".bat", ".mjs", ".cjs", ".js", ".ts", ".py", ".sh"] {
        if let Some(stem) = name.strip_suffix(end) {
            return stem.to_owned();
        }
    }
    name.to_owned()
}

fn tidy(name: &str) -> String {
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' }).collect();
    let name = name.trim_matches('-').to_lowercase();
    if name.is_empty() { "server".to_owned() } else { name }
}

/// `{"mcpServers": {...}}`, `{"servers": {...}}`, `"name": {...}`, one bare entry, or eVi's own array.
fn block(text: &str) -> Result<Vec<UpstreamDraft>, Problem> {
    // A fragment such as `"name": { … }` is what documentation often shows.
    let whole =
        if text.starts_with('"') { format!("{{{}}}", text.trim_end_matches(',')) } else { text.to_owned() };
    let value: Value = evi_store::parse_lenient(&whole).map_err(|problem| {
        Problem::new(Code::InvalidInput, format!("this is not a settings block: {problem}"))
    })?;
    let entries: Vec<(String, Value)> = match value {
        Value::Array(list) => list.into_iter().map(|entry| (String::new(), entry)).collect(),
        Value::Object(map) => {
            let inner = ["mcpServers", "servers", "context_servers"]
                .iter()
                .find_map(|key| map.get(*key)?.as_object().cloned());
            if let Some(inner) = inner {
                inner.into_iter().collect()
            } else if map.contains_key("command") || map.contains_key("url") {
                vec![(String::new(), Value::Object(map))]
            } else {
                map.into_iter().filter(|(_, v)| v.is_object()).collect()
            }
        }
        _ => Vec::new(),
    };
    let drafts: Vec<UpstreamDraft> = entries.iter().filter_map(|(name, entry)| draft(name, entry)).collect();
    if drafts.is_empty() {
        return Err(Problem::new(Code::InvalidInput, "there is no server in this block")
            .hint("a server has a command or a url"));
    }
    Ok(drafts)
}

fn draft(name: &str, entry: &Value) -> Option<UpstreamDraft> {
    let text =
        |keys: &[&str]| keys.iter().find_map(|k| entry.get(*k)?.as_str()).unwrap_or_default().to_owned();
    let values = |keys: &[&str]| -> Vec<DraftValue> {
        let Some(map) = keys.iter().find_map(|k| entry.get(*k)?.as_object()) else { return Vec::new() };
        map.iter()
            .map(|(key, value)| DraftValue {
                key: key.clone(),
                value: Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
                secret: true,
            })
            .collect()
    };
    let url = text(&["url", "serverUrl", "httpUrl"]);
    let mut args: Vec<String> = match entry.get("args") {
        Some(Value::Array(list)) => {
            list.iter().map(|a| a.as_str().map_or_else(|| a.to_string(), str::to_owned)).collect()
        }
        Some(Value::String(line)) => split(line).unwrap_or_default(),
        _ => Vec::new(),
    };
    let command = match entry.get("command") {
        Some(Value::Array(words)) => {
            let mut words = words.iter().filter_map(Value::as_str).map(str::to_owned);
            let command = words.next().unwrap_or_default();
            args = words.chain(args).collect();
            command
        }
        _ => text(&["command", "cmd"]),
    };
    if command.is_empty() && url.is_empty() {
        return None;
    }
    let mut draft = if command.is_empty() {
        let mut draft = address(&url);
        if ["sse"].contains(&text(&["type", "transport"]).as_str()) {
            draft.transport = "sse".to_owned();
        }
        draft.headers = values(&["headers"]);
        draft
    } else {
        UpstreamDraft {
            name: name_of(&command, &args),
            transport: "stdio".to_owned(),
            command,
            args,
            env: values(&["env", "environment", "envs"]),
            cwd: entry.get("cwd").and_then(Value::as_str).map(str::to_owned),
            ..UpstreamDraft::default()
        }
    };
    let own = text(&["name"]);
    if let Some(given) = [name, own.as_str()].into_iter().find(|n| !n.is_empty()) {
        draft.name = given.to_owned();
    }
    draft.options =
        serde_json::from_value(entry.clone()).ok().filter(|o| *o != UpstreamOptionsView::default());
    Some(draft)
}

/// What a person should look at twice before saving.
fn warnings(draft: &UpstreamDraft) -> Vec<String> {
    let mut out = Vec::new();
    let program = file_stem(&draft.command);
    if ["sh", "bash", "zsh", "cmd", "powershell", "pwsh"].contains(&program.as_str())
        && draft.args.iter().any(|a| ["-c", "/c", "-Command", "-EncodedCommand"].contains(&a.as_str()))
    {
        out.push(format!("{program} runs a whole script here; read it before you save"));
    }
    // MSYS turns `/c` into a path before we see it.
    if program == "cmd" && draft.args.first().is_some_and(|a| a.eq_ignore_ascii_case("C:/")) {
        out.push("the argument C:/ looks like /c, changed by the shell; write //c there".to_owned());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> UpstreamDraft {
        let parsed = parse(text);
        assert!(parsed.problem.is_none(), "{:?}", parsed.problem);
        parsed.drafts.into_iter().next().unwrap()
    }

    #[test]
    fn a_pasted_command_line_is_split_into_name_command_and_arguments() {
        let draft = one("npx -y @modelcontextprotocol/server-filesystem '/some folder'");
        assert_eq!(draft.name, "filesystem");
        assert_eq!(draft.command, "npx");
        assert_eq!(draft.args, ["-y", "@modelcontextprotocol/server-filesystem", "/some folder"]);
        assert_eq!(one("uvx mcp-server-git --repository .").name, "git");
        assert_eq!(one("node /opt/time-server.mjs").name, "time");
        assert_eq!(one("docker run -i --rm mcp/fetch").name, "fetch");
        assert_eq!(one("npx -y @scope/thing@1.2.3").name, "thing");
    }

    #[test]
    fn leading_assignments_become_env_values() {
        let draft = one("API_KEY=abc npx thing");
        assert_eq!((draft.env[0].key.as_str(), draft.env[0].value.as_deref()), ("API_KEY", Some("abc")));
        assert_eq!(draft.command, "npx");
    }

    #[test]
    fn i06_windows_paths_keep_their_backslashes() {
        let draft = one(r#""C:\Program Files\nodejs\npx.cmd" -y pkg "C:\My Vault""#);
        assert_eq!(draft.command, r"C:\Program Files\nodejs\npx.cmd");
        assert_eq!(draft.args, ["-y", "pkg", r"C:\My Vault"]);
    }

    #[test]
    fn i07_a_mangled_argument_is_pointed_out() {
        assert_eq!(parse("cmd C:/ npx -y x").warnings.len(), 1);
    }

    #[test]
    fn addresses_and_blocks_of_other_applications_are_understood() {
        let draft = one("https://mcp.linear.app/mcp");
        assert_eq!((draft.name.as_str(), draft.transport.as_str()), ("linear", "http"));
        assert_eq!(one("http://127.0.0.1:9/sse").transport, "sse");
        let block = parse(
            "{ // from a README\n \"mcpServers\": { \"a\": {\"command\": \"x\", \"args\": [\"1\"], \"env\": {\"K\": \"v\"}}, \"b\": {\"url\": \"https://e.org/mcp\"}, } }",
        );
        assert_eq!(block.drafts.len(), 2);
        assert_eq!(block.drafts[0].env[0].key, "K");
        assert_eq!(one("\"git\": { \"command\": \"uvx\", \"args\": [\"mcp-server-git\"] },").name, "git");
    }

    #[test]
    fn what_is_not_clear_is_a_problem() {
        assert!(parse("npx 'open").problem.is_some());
        assert!(parse("{\"mcpServers\": 3}").problem.is_some());
        assert!(parse("{ nonsense").problem.is_some());
    }
}
