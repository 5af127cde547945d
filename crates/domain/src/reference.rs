//! References in configuration: `${env:NAME}`, `${NAME}`, `${NAME:-default}`, `${secret:id}`; `$${` is a
//! literal `${`, any other `$` stays as it is. An expansion is never stored or shown.

use crate::{Secret, SecretId};

/// A part of a template.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Text as it is.
    Text(&'a str),
    /// An environment variable and what stands for it when it is unset.
    Env(&'a str, Option<&'a str>),
    /// A value in the vault.
    Secret(&'a str),
}

/// Why a template could not be expanded.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReferenceError {
    /// The variable has no value and the reference no default.
    #[error("environment variable {0} is not set")]
    EnvUnset(String),
    /// The vault knows no such value.
    #[error("secret {0} is not in the keychain")]
    SecretMissing(SecretId),
    /// The vault has it but cannot be read now.
    #[error("secret {0} cannot be read: the keychain is locked")]
    SecretLocked(SecretId),
}

/// Splits a template into its parts.
pub fn parse(template: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    let bytes = template.as_bytes();
    while at < bytes.len() {
        if template[at..].starts_with("$${") {
            if start < at {
                parts.push(Part::Text(&template[start..at]));
            }
            parts.push(Part::Text("${"));
            at += 3;
            start = at;
        } else if template[at..].starts_with("${") {
            match template[at + 2..]
                .find('}')
                .and_then(|n| reference(&template[at + 2..at + 2 + n]).map(|p| (n, p)))
            {
                Some((n, part)) => {
                    if start < at {
                        parts.push(Part::Text(&template[start..at]));
                    }
                    parts.push(part);
                    at += n + 3;
                    start = at;
                }
                None => at += 2,
            }
        } else {
            at += template[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    if start < template.len() {
        parts.push(Part::Text(&template[start..]));
    }
    parts
}

fn reference(inside: &str) -> Option<Part<'_>> {
    if let Some(id) = inside.strip_prefix("secret:") {
        return (!id.is_empty()).then_some(Part::Secret(id));
    }
    let (name, default) = match inside.strip_prefix("env:") {
        Some(name) => (name, None),
        None => match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        },
    };
    let mut chars = name.chars();
    let head = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    (head && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(Part::Env(name, default))
}

/// Expands a template. `env` and `secret` give the values; the result may hold secrets, so it is one.
///
/// # Errors
/// Names the first reference that has no value.
pub fn expand(
    template: &str,
    env: impl Fn(&str) -> Option<String>,
    secret: impl Fn(&SecretId) -> Result<Secret, ReferenceError>,
) -> Result<Secret, ReferenceError> {
    let mut out = String::with_capacity(template.len());
    for part in parse(template) {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Env(name, default) => match (env(name).filter(|v| !v.is_empty()), default) {
                (Some(value), _) => out.push_str(&value),
                (None, Some(default)) => out.push_str(default),
                (None, None) => return Err(ReferenceError::EnvUnset(name.to_owned())),
            },
            Part::Secret(id) => out.push_str(secret(&SecretId::new(id))?.expose()),
        }
    }
    Ok(Secret::new(out))
}

/// The secrets that a template names.
pub fn secrets_in(template: &str) -> Vec<SecretId> {
    parse(template)
        .into_iter()
        .filter_map(|part| if let Part::Secret(id) = part { Some(SecretId::new(id)) } else { None })
        .collect()
}

/// The reference that stands in a file for a value in the vault.
pub fn to_secret(id: &SecretId) -> String {
    format!("${{secret:{id}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(template: &str) -> Result<String, ReferenceError> {
        expand(
            template,
            |name| (name == "TOK").then(|| "t0k".to_owned()),
            |id| {
                if id.as_str() == "a.b" {
                    Ok(Secret::new("s3c"))
                } else {
                    Err(ReferenceError::SecretMissing(id.clone()))
                }
            },
        )
        .map(|s| s.expose().to_owned())
    }

    #[test]
    fn i66_only_the_four_forms_are_expanded() {
        assert_eq!(go("Bearer ${TOK}").as_deref(), Ok("Bearer t0k"));
        assert_eq!(go("${env:TOK}").as_deref(), Ok("t0k"));
        assert_eq!(go("${NOPE:-d}").as_deref(), Ok("d"));
        assert_eq!(go("x${secret:a.b}y").as_deref(), Ok("xs3cy"));
        assert_eq!(go("$HOME $$ $1 ${").as_deref(), Ok("$HOME $$ $1 ${"));
        assert_eq!(go("$${TOK}").as_deref(), Ok("${TOK}"));
        assert_eq!(go("${not a name} ${é}").as_deref(), Ok("${not a name} ${é}"));
    }

    #[test]
    fn i68_a_reference_without_value_is_named() {
        assert_eq!(go("${NOPE}"), Err(ReferenceError::EnvUnset("NOPE".into())));
        assert_eq!(go("${secret:zz}"), Err(ReferenceError::SecretMissing("zz".into())));
    }
}
