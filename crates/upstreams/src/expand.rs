//! Puts values in place of references when an upstream starts. The values go to the process or the headers and
//! nowhere else.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use evi_domain::{
    Secret, SecretError, SecretId, SecretStore, TransportSpec, UpstreamSpec,
    reference::{self, Part, ReferenceError},
};

use crate::error::Fault;

/// How long the vault may take: a keychain may ask the person.
const VAULT_LIMIT: Duration = Duration::from_secs(10);

/// A transport whose texts are final.
pub(crate) enum Target {
    /// A process.
    Stdio { command: String, args: Vec<Secret>, env: BTreeMap<String, Secret>, cwd: Option<PathBuf> },
    /// Streamable HTTP.
    Http { url: Secret, headers: BTreeMap<String, Secret> },
    /// HTTP+SSE.
    Sse { url: Secret, headers: BTreeMap<String, Secret> },
}

/// A target, and the values in it that must not be shown.
pub(crate) struct Expanded {
    pub(crate) target: Target,
    /// A file of certificates to trust, its place final.
    pub(crate) ca: Option<PathBuf>,
    pub(crate) hidden: Vec<String>,
}

/// Expands every text of `spec`. The vault is asked on a thread that may block, for at most 10 s.
pub(crate) async fn expand(spec: &UpstreamSpec, secrets: Arc<dyn SecretStore>) -> Result<Expanded, Fault> {
    let ids: BTreeSet<SecretId> = spec.templates().into_iter().flat_map(reference::secrets_in).collect();
    let values = if ids.is_empty() { BTreeMap::new() } else { read_vault(ids, secrets).await? };
    Filler { values, hidden: Vec::new() }.fill(spec)
}

async fn read_vault(
    ids: BTreeSet<SecretId>,
    secrets: Arc<dyn SecretStore>,
) -> Result<BTreeMap<SecretId, Secret>, Fault> {
    let first = ids.first().cloned();
    let reading = tokio::task::spawn_blocking(move || {
        let mut values = BTreeMap::new();
        for id in ids {
            let value = match secrets.get(&id) {
                // An empty value would become a header or a variable without content.
                Ok(Some(value)) if !value.is_empty() => value,
                Ok(_) => return Err(Fault::ReferenceMissing(ReferenceError::SecretMissing(id))),
                Err(SecretError::Locked | SecretError::NoKeychain) => return Err(Fault::SecretLocked(id)),
                Err(SecretError::Failed(reason)) => return Err(Fault::SecretUnreadable { id, reason }),
            };
            values.insert(id, value);
        }
        Ok(values)
    });
    let unreadable = |reason: &str| Fault::SecretUnreadable {
        id: first.clone().unwrap_or_else(|| SecretId::new("?")),
        reason: reason.to_owned(),
    };
    match tokio::time::timeout(VAULT_LIMIT, reading).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(unreadable("the keychain's reader failed")),
        Err(_) => Err(unreadable("the keychain did not answer in time")),
    }
}

struct Filler {
    values: BTreeMap<SecretId, Secret>,
    hidden: Vec<String>,
}

impl Filler {
    fn fill(mut self, spec: &UpstreamSpec) -> Result<Expanded, Fault> {
        let target = match &spec.transport {
            TransportSpec::Stdio { command, args, env, cwd } => Target::Stdio {
                command: self.text("", command)?.expose().to_owned(),
                args: args.iter().map(|arg| self.text("", arg)).collect::<Result<_, _>>()?,
                env: self.map(env)?,
                cwd: cwd.as_deref().map(|c| self.text("", c)).transpose()?.map(|c| PathBuf::from(c.expose())),
            },
            TransportSpec::Http { url, headers } => {
                Target::Http { url: self.text("", url)?, headers: self.map(headers)? }
            }
            TransportSpec::Sse { url, headers } => {
                Target::Sse { url: self.text("", url)?, headers: self.map(headers)? }
            }
        };
        let ca = spec.options.ca.as_deref().map(|ca| self.text("", ca)).transpose()?;
        Ok(Expanded { target, ca: ca.map(|ca| in_home(ca.expose())), hidden: self.hidden })
    }

    fn map(&mut self, texts: &BTreeMap<String, String>) -> Result<BTreeMap<String, Secret>, Fault> {
        texts.iter().map(|(key, text)| Ok((key.clone(), self.text(key, text)?))).collect()
    }

    /// `key` is the name of the variable or the header, or nothing.
    fn text(&mut self, key: &str, template: &str) -> Result<Secret, Fault> {
        for part in reference::parse(template) {
            match part {
                Part::Secret(id) => {
                    self.hidden.extend(self.values.get(&SecretId::new(id)).map(|v| v.expose().to_owned()));
                }
                Part::Env(name, _) if sounds_secret(name) || sounds_secret(key) => {
                    self.hidden.extend(std::env::var(name).ok());
                }
                Part::Env(..) | Part::Text(_) => {}
            }
        }
        let value = reference::expand(
            template,
            |name| std::env::var(name).ok(),
            |id| self.values.get(id).cloned().ok_or_else(|| ReferenceError::SecretMissing(id.clone())),
        )
        .map_err(Fault::ReferenceMissing)?;
        if sounds_secret(key) {
            // Also a plain value from the file; without the word in front, which is no secret.
            let text = value.expose();
            self.hidden.push(text.strip_prefix("Bearer ").unwrap_or(text).to_owned());
        }
        Ok(value)
    }
}

/// `~/x` below the person's home folder.
fn in_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/").or_else(|| path.strip_prefix("~\\")), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

/// Whether a variable or header of this name usually holds a secret.
fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["TOKEN", "KEY", "SECRET", "PASS", "AUTH", "CREDENTIAL", "COOKIE"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Vault(Result<Option<&'static str>, SecretError>);
    impl SecretStore for Vault {
        fn get(&self, _: &SecretId) -> Result<Option<Secret>, SecretError> {
            self.0.clone().map(|v| v.map(Secret::new))
        }
        fn set(&self, _: &SecretId, _: &Secret) -> Result<(), SecretError> {
            Err(SecretError::NoKeychain)
        }
        fn delete(&self, _: &SecretId) -> Result<(), SecretError> {
            Err(SecretError::NoKeychain)
        }
        fn ids(&self) -> Vec<SecretId> {
            Vec::new()
        }
        fn probe(&self) -> Result<(), SecretError> {
            Ok(())
        }
    }

    fn spec(value: &str) -> UpstreamSpec {
        UpstreamSpec::new(
            "a".into(),
            TransportSpec::Http {
                url: "http://localhost/mcp".into(),
                headers: BTreeMap::from([("Authorization".to_owned(), value.to_owned())]),
            },
        )
    }

    async fn go(value: &str, vault: Vault) -> Result<Expanded, Fault> {
        expand(&spec(value), Arc::new(vault)).await
    }

    #[tokio::test]
    async fn i66_a_header_gets_its_value_and_the_value_is_hidden() {
        let got = go("Bearer ${secret:t}", Vault(Ok(Some("s3cret")))).await.ok().unwrap();
        let Target::Http { headers, .. } = got.target else { panic!("not http") };
        assert_eq!(headers["Authorization"].expose(), "Bearer s3cret");
        assert!(got.hidden.contains(&"s3cret".to_owned()));
        let plain = go("Bearer in-the-file", Vault(Ok(None))).await.ok().unwrap();
        assert_eq!(plain.hidden, ["in-the-file"]);
    }

    #[tokio::test]
    async fn i68_a_missing_reference_is_named_and_a_locked_one_waits() {
        let fault = |r: Result<Expanded, Fault>| r.err().unwrap();
        let missing = fault(go("${secret:t}", Vault(Ok(None))).await);
        assert_eq!(
            (missing.code(), missing.to_string()),
            ("reference_missing", "secret t is not in the keychain".into())
        );
        assert_eq!(fault(go("${secret:t}", Vault(Ok(Some("")))).await).code(), "reference_missing");
        assert_eq!(fault(go("${secret:t}", Vault(Err(SecretError::Locked))).await).code(), "secret_locked");
        let unset = fault(go("${EVI_TEST_NOT_SET}", Vault(Ok(None))).await);
        assert_eq!(unset.to_string(), "environment variable EVI_TEST_NOT_SET is not set");
    }
}
