//! Names for tools that a consumer accepts: a function of the address alone wherever that is enough, so that a
//! name does not change when other tools come and go; mapped back by lookup only.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use crate::{Owner, ToolAddress};

/// What a consumer accepts.
#[derive(Clone, Copy, Debug)]
pub struct NameRule {
    /// Between the server's and the tool's name.
    pub separator: &'static str,
    /// Whether a dot may stand in a name.
    pub dots: bool,
    /// The most characters; at least 16.
    pub limit: usize,
}

/// Clients of the gateway: 1–128 of `[A-Za-z0-9_.-]`
/// (<https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names>).
pub const CLIENT: NameRule = NameRule { separator: ".", dots: true, limit: 128 };
/// Models: 1–64 of `[A-Za-z0-9_-]`, what every provider takes.
pub const MODEL: NameRule = NameRule { separator: "__", dots: false, limit: 64 };

/// A name for each address, in the same order, all different. An address whose name had to be changed or cut, or
/// that would have the same name as another, ends in eight hexadecimal digits of its own hash.
pub fn names<'a>(addresses: impl IntoIterator<Item = &'a ToolAddress>, rule: NameRule) -> Vec<String> {
    let plain: Vec<(&ToolAddress, String, bool)> = addresses
        .into_iter()
        .map(|address| {
            let (name, exact) = plain(address, rule);
            (address, name, exact)
        })
        .collect();
    let mut seen = HashMap::<&str, usize>::new();
    for (_, name, _) in &plain {
        *seen.entry(name).or_default() += 1;
    }
    plain
        .iter()
        .map(|(address, name, exact)| {
            if *exact && seen.get(name.as_str()) == Some(&1) {
                name.clone()
            } else {
                let keep: String = name.chars().take(rule.limit - 9).collect();
                format!("{keep}_{}", hash(address))
            }
        })
        .collect()
}

fn plain(address: &ToolAddress, rule: NameRule) -> (String, bool) {
    let whole = match &address.owner {
        Owner::Builtin(_) => address.tool.to_string(),
        Owner::Upstream(name) => format!("{}{}{}", name, rule.separator, address.tool),
    };
    let name: String = whole
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' || c == '-' || (c == '.' && rule.dots) { c } else { '_' }
        })
        .collect();
    let exact = name == whole && !name.is_empty() && name.len() <= rule.limit;
    (name, exact)
}

fn hash(address: &ToolAddress) -> String {
    let mut hasher = Sha256::new();
    match &address.owner {
        Owner::Builtin(category) => hasher.update(format!("builtin\0{category}")),
        Owner::Upstream(name) => hasher.update(format!("upstream\0{name}")),
    }
    hasher.update(format!("\0{}", address.tool));
    hasher.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up(server: &str, tool: &str) -> ToolAddress {
        ToolAddress::upstream(server.into(), tool)
    }

    #[test]
    fn usual_names_stay_as_they_are() {
        let all = [up("filesystem", "read_file"), ToolAddress::builtin("memory", "remember")];
        assert_eq!(names(&all, CLIENT), ["filesystem.read_file", "remember"]);
        assert_eq!(names(&all, MODEL), ["filesystem__read_file", "remember"]);
    }

    #[test]
    fn i41_i42_names_fit_and_do_not_depend_on_order_or_neighbours() {
        let mut all = vec![
            up("Internet Search (Tavily)", "search"),
            up("é", "coding.start"),
            up("a/b", "x"),
            up("a b", "x"),
            up(&"s".repeat(48), &"t".repeat(26)),
        ];
        let alone: Vec<String> = all.iter().map(|a| names([a], MODEL).remove(0)).collect();
        let together = names(&all, MODEL);
        assert_eq!(alone, together);
        all.reverse();
        let mut back = names(&all, MODEL);
        back.reverse();
        assert_eq!(together, back);
        for name in &together {
            assert!(
                name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'),
                "{name}"
            );
        }
        let different: std::collections::BTreeSet<_> = together.iter().collect();
        assert_eq!(different.len(), together.len());
    }

    #[test]
    fn i46_two_that_would_be_the_same_are_told_apart() {
        let all = [up("a__b", "c"), up("a", "b__c"), up("A", "execute_sql"), up("B", "execute_sql")];
        let names = names(&all, MODEL);
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), 4, "{names:?}");
        assert_eq!(names[2], "A__execute_sql");
    }
}
