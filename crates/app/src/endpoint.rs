//! The served HTTP endpoint of this process: its switch, its token, its state. It never moves to another port.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use evi_contract::{Code, Problem, Tag};
use evi_domain::{Exposure, Secret, SecretId, SecretStore, ToolHost};
use evi_gateway::{ClientInfo, Guests, HttpGateway, HttpSettings};
use tokio::sync::Mutex;

use crate::{events::Events, problem};

/// The id of the endpoint's token in the vault.
pub const TOKEN_ID: &str = "gateway.token";

/// The endpoint of the desktop and the web shell.
pub struct Endpoint {
    host: Arc<dyn ToolHost>,
    vault: Arc<dyn SecretStore>,
    events: Events,
    /// Who is connected over a stream: applications that start `evi` themselves.
    pub guests: Guests,
    // Held across awaits on purpose: starting and stopping must not overlap. Nothing else waits for it but
    // commands about the endpoint.
    running: Mutex<Running>,
    token: Mutex<Option<Token>>,
}

#[derive(Default)]
struct Running {
    gateway: Option<HttpGateway>,
    problem: Option<Problem>,
}

/// The token and whether it outlives this process.
#[derive(Clone)]
pub struct Token {
    /// Its value.
    pub value: Secret,
    /// Whether it is in the keychain.
    pub kept: bool,
}

/// How the endpoint stands.
pub struct Standing {
    /// `off`, `running`, `failed`.
    pub state: &'static str,
    /// Why it does not run.
    pub problem: Option<Problem>,
    /// Who is connected, over HTTP or a stream.
    pub clients: Vec<ClientInfo>,
}

impl Endpoint {
    /// Not running.
    pub fn new(host: Arc<dyn ToolHost>, vault: Arc<dyn SecretStore>, events: Events) -> Self {
        Self {
            host,
            vault,
            events,
            guests: Guests::default(),
            running: Mutex::default(),
            token: Mutex::default(),
        }
    }

    /// Starts it, if it does not run on this port already.
    ///
    /// # Errors
    /// A busy port, or anything else that stands in the way; it is kept as the endpoint's problem, too.
    pub async fn start(&self, port: u16) -> Result<(), Problem> {
        let token = self.token().await.value;
        let mut running = self.running.lock().await;
        if let Some(gateway) = &running.gateway
            && gateway.address().port() == port
        {
            return Ok(());
        }
        if let Some(old) = running.gateway.take() {
            old.stop().await;
        }
        let settings = HttpSettings {
            addr: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            token: Some(token),
            exposure: Exposure::default(),
            insecure_no_auth: false,
        };
        let result = match HttpGateway::start(self.host.clone(), settings).await {
            Ok(gateway) => {
                let (mut clients, events) = (gateway.changed(), self.events.clone());
                // Ends with the gateway, which holds the other end.
                tokio::spawn(async move {
                    while clients.changed().await.is_ok() {
                        events.invalidate(&[Tag::Gateway]);
                    }
                });
                running.gateway = Some(gateway);
                running.problem = None;
                Ok(())
            }
            Err(error) => {
                let problem = problem::gateway(&error);
                running.problem = Some(problem.clone());
                Err(problem)
            }
        };
        self.events.invalidate(&[Tag::Gateway]);
        result
    }

    /// Stops it; clients are told by their closed connections.
    pub async fn stop(&self) {
        let mut running = self.running.lock().await;
        running.problem = None;
        if let Some(gateway) = running.gateway.take() {
            gateway.stop().await;
        }
        self.events.invalidate(&[Tag::Gateway]);
    }

    /// How it stands.
    pub async fn standing(&self) -> Standing {
        let running = self.running.lock().await;
        let mut clients = self.guests.list();
        match &running.gateway {
            Some(gateway) => {
                clients.extend(one_each(gateway.clients()));
                Standing { state: "running", problem: None, clients }
            }
            None => Standing {
                state: if running.problem.is_some() { "failed" } else { "off" },
                problem: running.problem.clone(),
                clients,
            },
        }
    }

    /// The token: from the vault, or made now. Where nothing can be kept it lasts until this process ends.
    pub async fn token(&self) -> Token {
        let mut held = self.token.lock().await;
        if let Some(token) = &*held {
            return token.clone();
        }
        let vault = self.vault.clone();
        let stored = tokio::task::spawn_blocking(move || vault.get(&SecretId::new(TOKEN_ID))).await;
        let token = match stored {
            Ok(Ok(Some(value))) if !value.is_empty() => Token { value, kept: true },
            // A locked keychain has a token that we must not replace; this one stands in until it opens.
            Ok(Err(_)) | Err(_) => Token { value: fresh(), kept: false },
            Ok(Ok(_)) => self.keep(fresh()).await,
        };
        *held = Some(token.clone());
        token
    }

    /// Makes a new token; the old one is refused from now on.
    pub async fn replace_token(&self) {
        let token = self.keep(fresh()).await;
        *self.token.lock().await = Some(token.clone());
        if let Some(gateway) = &self.running.lock().await.gateway {
            gateway.set_token(token.value);
        }
        self.events.invalidate(&[Tag::Gateway]);
    }

    async fn keep(&self, value: Secret) -> Token {
        let (vault, kept) = (self.vault.clone(), value.clone());
        let stored = tokio::task::spawn_blocking(move || vault.set(&SecretId::new(TOKEN_ID), &kept)).await;
        let kept = matches!(stored, Ok(Ok(())));
        if !kept {
            tracing::warn!("the gateway's token could not be put into the keychain; it lasts until eVi ends");
        }
        Token { value, kept }
    }
}

/// One entry for each application: a command line tool leaves a session behind with each of its runs.
fn one_each(sessions: Vec<ClientInfo>) -> Vec<ClientInfo> {
    let mut each: Vec<ClientInfo> = Vec::new();
    for session in sessions {
        match each.iter_mut().find(|one| one.name == session.name && one.version == session.version) {
            Some(one) => one.last_call_ms = one.last_call_ms.max(session.last_call_ms),
            None => each.push(session),
        }
    }
    each
}

/// 256 random bits, url-safe.
fn fresh() -> Secret {
    Secret::new(format!("evi_{}", random_hex(32)))
}

/// Random bytes of the system as hexadecimal digits.
pub fn random_hex(bytes: usize) -> String {
    let mut buffer = vec![0u8; bytes];
    if getrandom::fill(&mut buffer).is_err() {
        // The system has no randomness: two random UUIDs are the next best source it has.
        return format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    }
    buffer.iter().map(|b| format!("{b:02x}")).collect()
}

/// A token for people to recognise: its ends.
pub fn hint(token: &Secret) -> String {
    let text = token.expose();
    let tail: String = text.chars().skip(text.chars().count().saturating_sub(4)).collect();
    format!("evi_…{tail}")
}

/// A port from a form.
///
/// # Errors
/// Outside 1 to 65535.
pub fn port(port: u32) -> Result<u16, Problem> {
    u16::try_from(port).ok().filter(|p| *p != 0).ok_or_else(|| {
        Problem::new(Code::InvalidInput, format!("{port} is not a port"))
            .hint("ports go from 1 to 65535")
            .field("port")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_with_many_sessions_is_listed_once_with_its_last_call() {
        let session = |version: &str, since_ms, last_call_ms| ClientInfo {
            name: "inspector".to_owned(),
            version: version.to_owned(),
            since_ms,
            last_call_ms,
            transport: "http".to_owned(),
        };
        let each = one_each(vec![session("1", 10, None), session("1", 20, Some(25)), session("2", 30, None)]);
        let each: Vec<_> = each.iter().map(|c| (c.version.as_str(), c.since_ms, c.last_call_ms)).collect();
        assert_eq!(each, [("1", 10, Some(25)), ("2", 30, None)]);
    }
}
