//! Who may call what: pure decisions over facts. The most specific rule wins, deny beats allow.

use serde::{Deserialize, Serialize};

use crate::{Caller, Owner, ToolAddress, kept};

/// What is to happen with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It runs.
    Allow,
    /// The person is asked; the text says why.
    Ask(String),
    /// It does not run; the text names the rule.
    Deny(String),
}

/// How a person shared an upstream with the clients of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum ShareMode {
    /// Every tool, without a question.
    #[default]
    Full,
    /// Only tools that say they read only.
    ReadOnly,
    /// Every tool, each call asked.
    Ask,
}

/// The part of `config.toml` that decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// `[auto] auto_approve`: categories that chat may use without a question.
    pub auto_approve: Vec<String>,
    /// `[auto] rules`, in the file's order.
    pub rules: Vec<Rule>,
    /// `[auto] hard_deny`: globs over tool names; nobody may call these.
    pub hard_deny: Vec<String>,
}

/// A line of `[auto] rules`: `allow|deny <tool-glob> [arg-glob]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Allow or deny.
    pub allow: bool,
    /// Over the tool's shown name (`filesystem.read_file`, `remember`) or its bare name.
    pub tool: String,
    /// Over the arguments as compact JSON.
    pub arguments: Option<String>,
}

impl Rule {
    /// Reads `allow|deny <tool-glob> [arg-glob]`.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.trim().splitn(3, char::is_whitespace);
        let allow = match words.next()? {
            "allow" => true,
            "deny" => false,
            _ => return None,
        };
        let tool = words.next().filter(|t| !t.is_empty())?.to_owned();
        let arguments = words.next().map(str::trim).filter(|a| !a.is_empty()).map(str::to_owned);
        Some(Self { allow, tool, arguments })
    }
}

/// What is known of the tool that is to be called.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Which tool.
    pub address: &'a ToolAddress,
    /// The arguments as compact JSON.
    pub arguments: &'a str,
    /// Whether it is one of ours that only reads (known, not hinted).
    pub own_read_only: bool,
    /// How the upstream is shared with this client; `None` where it does not apply.
    pub share: Option<ShareMode>,
    /// Whether the person allowed this tool for the rest of this conversation.
    pub allowed_for_chat: bool,
}

/// The categories that clients of the gateway have without asking, where nothing says otherwise.
pub const CLIENT_CATEGORIES: [&str; 4] = ["memory", "index", "calendar", "git"];
const NEVER_AUTO: [&str; 3] = ["code", "shell", "computer"];

/// Decides a call. Exposure was checked before: what a caller may not see does not get here.
pub fn decide(policy: &Policy, caller: &Caller, facts: Facts<'_>) -> Decision {
    let shown = facts.address.to_string();
    let bare = &*facts.address.tool;
    if let Some(glob) = policy.hard_deny.iter().find(|g| glob_matches(g, &shown) || glob_matches(g, bare)) {
        return Decision::Deny(format!("[auto] hard_deny names {glob}"));
    }
    match caller {
        Caller::Person => Decision::Allow,
        Caller::Client { .. } => match (&facts.address.owner, facts.share) {
            (Owner::Upstream(_), Some(ShareMode::Ask)) => {
                Decision::Ask("this server is shared with a question for each call".to_owned())
            }
            (Owner::Upstream(_), _) => Decision::Allow,
            (Owner::Builtin(category), _) if CLIENT_CATEGORIES.contains(&&**category) => Decision::Allow,
            (Owner::Builtin(category), _) => {
                Decision::Ask(format!("tools of the category {category} ask first"))
            }
        },
        Caller::Chat { .. } => match rule(policy, &shown, bare, facts.arguments) {
            Some(rule) if !rule.allow => Decision::Deny(format!("[auto] rules has deny {}", rule.tool)),
            Some(_) => Decision::Allow,
            None if facts.allowed_for_chat => Decision::Allow,
            None => chat_default(policy, facts),
        },
    }
}

fn chat_default(policy: &Policy, facts: Facts<'_>) -> Decision {
    let Owner::Builtin(category) = &facts.address.owner else {
        return Decision::Ask("tools of servers ask first".to_owned());
    };
    let listed = policy.auto_approve.iter().any(|c| **c == **category);
    let may = !NEVER_AUTO.contains(&&**category) && (**category != *"fs" || facts.own_read_only);
    let reads =
        facts.own_read_only && (CLIENT_CATEGORIES.contains(&&**category) || **category == *kept::CATEGORY);
    if reads || (listed && may) {
        Decision::Allow
    } else {
        Decision::Ask(format!("tools of the category {category} ask first"))
    }
}

/// The most specific rule that matches: with an argument glob before without, fewer wildcards and more
/// letters before fewer; on a tie deny wins.
fn rule<'p>(policy: &'p Policy, shown: &str, bare: &str, arguments: &str) -> Option<&'p Rule> {
    policy
        .rules
        .iter()
        .filter(|r| glob_matches(&r.tool, shown) || glob_matches(&r.tool, bare))
        .filter(|r| r.arguments.as_ref().is_none_or(|g| glob_matches(g, arguments)))
        .max_by_key(|r| {
            let letters = r.tool.chars().filter(|c| *c != '*' && *c != '?').count();
            let wild = r.tool.len() - letters;
            (r.arguments.is_some(), wild == 0, letters, !r.allow)
        })
}

/// `*` any run, `?` one character; everything else itself.
pub fn glob_matches(glob: &str, text: &str) -> bool {
    let (g, t): (Vec<char>, Vec<char>) = (glob.chars().collect(), text.chars().collect());
    let (mut gi, mut ti, mut star) = (0, 0, None);
    while ti < t.len() {
        if gi < g.len() && g[gi] == '*' {
            star = Some((gi, ti));
            gi += 1;
        } else if gi < g.len() && (g[gi] == '?' || g[gi] == t[ti]) {
            gi += 1;
            ti += 1;
        } else if let Some((sg, st)) = star {
            gi = sg + 1;
            ti = st + 1;
            star = Some((sg, ti));
        } else {
            return false;
        }
    }
    g[gi..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChatId, ids::Exposure};

    fn chat() -> Caller {
        Caller::Chat { chat: ChatId::new("c") }
    }
    fn client() -> Caller {
        Caller::Client { name: "x".into(), exposure: Exposure::default() }
    }
    fn facts(address: &ToolAddress) -> Facts<'_> {
        Facts { address, arguments: "{}", own_read_only: false, share: None, allowed_for_chat: false }
    }
    fn policy(rules: &[&str]) -> Policy {
        Policy {
            auto_approve: ["fs", "code", "memory", "skills", "image"].map(str::to_owned).to_vec(),
            rules: rules.iter().filter_map(|r| Rule::parse(r)).collect(),
            hard_deny: vec!["*.drop_*".to_owned()],
        }
    }
    fn kind(d: &Decision) -> &'static str {
        match d {
            Decision::Allow => "allow",
            Decision::Ask(_) => "ask",
            Decision::Deny(_) => "deny",
        }
    }

    #[test]
    fn each_cell_of_the_table_of_callers() {
        let server = ToolAddress::upstream("db".into(), "query");
        let dropping = ToolAddress::upstream("db".into(), "drop_table");
        let recall = ToolAddress::builtin("memory", "recall");
        let shell = ToolAddress::builtin("shell", "run_command");
        let code = ToolAddress::builtin("code", "run_python");
        let write = ToolAddress::builtin("fs", "write_file");
        let read = ToolAddress::builtin("fs", "read_file");
        let git = ToolAddress::builtin("git", "git_log");
        let p = policy(&[]);
        let on = |caller: &Caller, address: &ToolAddress, reads: bool, share| {
            kind(&decide(&p, caller, Facts { own_read_only: reads, share, ..facts(address) }))
        };
        assert_eq!(on(&chat(), &server, false, None), "ask");
        assert_eq!(on(&chat(), &recall, true, None), "allow");
        assert_eq!(on(&chat(), &git, true, None), "allow");
        assert_eq!(on(&chat(), &kept::read_result(), true, None), "allow", "it made the call itself");
        assert_eq!(on(&chat(), &code, false, None), "ask", "auto_approve never applies to code");
        assert_eq!(on(&chat(), &shell, false, None), "ask");
        assert_eq!(on(&chat(), &write, false, None), "ask", "auto_approve applies to fs only for reading");
        assert_eq!(on(&chat(), &read, true, None), "allow");
        assert_eq!(on(&client(), &server, false, Some(ShareMode::Full)), "allow", "sharing is the consent");
        assert_eq!(on(&client(), &server, false, Some(ShareMode::Ask)), "ask");
        assert_eq!(on(&client(), &recall, true, None), "allow");
        assert_eq!(on(&client(), &shell, false, None), "ask");
        assert_eq!(on(&Caller::Person, &shell, false, None), "allow");
        for caller in [chat(), client(), Caller::Person] {
            assert_eq!(
                on(&caller, &dropping, false, Some(ShareMode::Full)),
                "deny",
                "hard_deny holds for all"
            );
        }
    }

    #[test]
    fn i83_most_specific_rule_wins_and_deny_beats_allow() {
        let query = ToolAddress::upstream("db".into(), "query");
        let on = |rules: &[&str]| kind(&decide(&policy(rules), &chat(), facts(&query))).to_owned();
        assert_eq!(on(&["allow db.*"]), "allow");
        assert_eq!(on(&["allow db.*", "deny db.query"]), "deny");
        assert_eq!(on(&["deny db.*", "allow db.query"]), "allow");
        assert_eq!(on(&["allow db.query", "deny db.query"]), "deny");
        assert_eq!(on(&["allow db.query", "deny db.query *secret*"]), "allow");
    }

    #[test]
    fn allowing_for_a_chat_does_not_beat_a_deny_rule() {
        let query = ToolAddress::upstream("db".into(), "query");
        let facts = Facts { allowed_for_chat: true, ..facts(&query) };
        assert_eq!(kind(&decide(&policy(&[]), &chat(), facts)), "allow");
        assert_eq!(kind(&decide(&policy(&["deny db.*"]), &chat(), facts)), "deny");
    }
}
