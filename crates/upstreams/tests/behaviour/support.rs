//! A set of upstreams over the fixture servers, with words to wait for.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use evi_domain::{
    CatalogCache, Offer, Secret, SecretError, SecretId, SecretStore, TransportSpec, UpstreamName,
    UpstreamSpec, UpstreamState, UpstreamStatus,
};
use evi_upstreams::{Settings, Upstreams};
use serde_json::value::RawValue;

pub const LONG: Duration = Duration::from_secs(20);

/// A file or folder of the repository's tests.
pub fn fixture(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../tests", name].iter().collect();
    path.to_string_lossy().into_owned()
}

/// The adversarial server, in one of its kinds and modes.
fn adversary(kind: &str, args: &[&str]) -> Vec<String> {
    let script = fixture("adversary");
    let all = ["-I", "-S", "-B", &script, kind].into_iter().chain(args.iter().copied());
    all.map(str::to_owned).collect()
}

/// A stdio spec over the adversarial server.
pub fn server(name: &str, args: &[&str]) -> UpstreamSpec {
    command(name, "python3", adversary("lines", args))
}

pub fn command(name: &str, command: &str, args: Vec<String>) -> UpstreamSpec {
    let transport = TransportSpec::Stdio { command: command.into(), args, env: BTreeMap::new(), cwd: None };
    UpstreamSpec::new(name.into(), transport)
}

pub fn with_env(mut spec: UpstreamSpec, key: &str, value: &str) -> UpstreamSpec {
    if let TransportSpec::Stdio { env, .. } = &mut spec.transport {
        env.insert(key.into(), value.into());
    }
    spec
}

#[derive(Default)]
pub struct Vault(pub Mutex<BTreeMap<String, Result<String, SecretError>>>);

impl SecretStore for Vault {
    fn get(&self, id: &SecretId) -> Result<Option<Secret>, SecretError> {
        self.0.lock().unwrap().get(id.as_str()).cloned().transpose().map(|v| v.map(Secret::new))
    }
    fn set(&self, id: &SecretId, value: &Secret) -> Result<(), SecretError> {
        self.0.lock().unwrap().insert(id.to_string(), Ok(value.expose().to_owned()));
        Ok(())
    }
    fn delete(&self, id: &SecretId) -> Result<(), SecretError> {
        self.0.lock().unwrap().remove(id.as_str());
        Ok(())
    }
    fn ids(&self) -> Vec<SecretId> {
        Vec::new()
    }
    fn probe(&self) -> Result<(), SecretError> {
        Ok(())
    }
}

#[derive(Default)]
pub struct Cache(Mutex<BTreeMap<UpstreamName, Offer>>, pub Mutex<BTreeMap<UpstreamName, String>>);

impl CatalogCache for Cache {
    fn get(&self, upstream: &UpstreamName) -> Option<Offer> {
        self.0.lock().unwrap().get(upstream).cloned()
    }
    fn put(&self, upstream: &UpstreamName, offer: &Offer) {
        self.0.lock().unwrap().insert(upstream.clone(), offer.clone());
    }
    fn noted(&self, upstream: &UpstreamName) -> Option<String> {
        self.1.lock().unwrap().get(upstream).cloned()
    }
    fn note(&self, upstream: &UpstreamName, line: &str) {
        self.1.lock().unwrap().insert(upstream.clone(), line.to_owned());
    }
    fn remove(&self, upstream: &UpstreamName) {
        self.0.lock().unwrap().remove(upstream);
    }
}

pub struct House {
    pub upstreams: Upstreams,
    pub vault: Arc<Vault>,
    pub cache: Arc<Cache>,
}

pub fn house() -> House {
    house_with(Settings { start_limit: Duration::from_secs(15), ..Settings::default() })
}

pub fn house_with(settings: Settings) -> House {
    let (vault, cache) = (Arc::new(Vault::default()), Arc::new(Cache::default()));
    let upstreams = Upstreams::new(settings, vault.clone(), cache.clone());
    House { upstreams, vault, cache }
}

impl House {
    /// Runs one upstream and waits until it is ready or has failed.
    pub async fn run(&self, spec: UpstreamSpec) -> UpstreamStatus {
        let name = spec.name.clone();
        self.upstreams.apply(vec![spec]);
        self.upstreams.settled(LONG).await;
        self.upstreams.status(&name).unwrap()
    }

    pub async fn ready(&self, spec: UpstreamSpec) -> UpstreamStatus {
        let status = self.run(spec).await;
        assert_eq!(status.state, UpstreamState::Ready, "{status:?} {:?}", self.upstreams.log(&status.name));
        status
    }

    pub async fn wait(&self, name: &str, what: impl Fn(&UpstreamStatus) -> bool) -> UpstreamStatus {
        let name = UpstreamName::from(name);
        let mut changed = self.upstreams.changed();
        let waiting = async {
            loop {
                changed.mark_unchanged();
                if let Some(status) = self.upstreams.status(&name).filter(&what) {
                    return status;
                }
                changed.changed().await.unwrap();
            }
        };
        match tokio::time::timeout(LONG, waiting).await {
            Ok(status) => status,
            Err(_) => panic!("{:?}", self.upstreams.status(&name)),
        }
    }

    pub fn tools(&self, name: &str) -> Vec<String> {
        let catalog = self.upstreams.catalog();
        let offer = catalog.upstreams.get(&UpstreamName::from(name));
        offer.map(|offer| offer.tools.iter().map(|t| t.name().to_owned()).collect()).unwrap_or_default()
    }

    pub fn log(&self, name: &str) -> String {
        let lines = self.upstreams.log(&UpstreamName::from(name));
        lines.iter().map(|l| format!("{:?} {}\n", l.stream, l.text)).collect()
    }
}

pub fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

pub fn details(status: &UpstreamStatus) -> Vec<String> {
    status
        .stages
        .iter()
        .map(|s| format!("{:?} {:?} {}", s.kind, s.state, s.detail.as_deref().unwrap_or("-")))
        .collect()
}

/// Waits for something that only polling can see, such as the end of somebody else's process.
pub async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !is() {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether a process exists and is not just waiting to be reaped.
pub fn alive(pid: u32) -> bool {
    let state = match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit(')').next().unwrap_or_default().trim().to_owned(),
        Err(_) if std::path::Path::new("/proc/self").exists() => String::new(),
        Err(_) => {
            let ps = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().unwrap();
            String::from_utf8_lossy(&ps.stdout).trim().to_owned()
        }
    };
    !state.is_empty() && !state.starts_with('Z')
}

/// The adversarial server behind an address, running.
pub struct Web {
    child: Child,
    pub port: u16,
    pub requests: Arc<Mutex<Vec<String>>>,
}

impl Web {
    pub fn start(mode: &str) -> Self {
        Self::run("web", &[mode])
    }

    /// With a certificate and its key, in files.
    pub fn start_tls(mode: &str, cert: &str, key: &str) -> Self {
        Self::run("web", &[mode, cert, key])
    }

    pub fn start_sse(mode: &str) -> Self {
        Self::run("events", &[mode])
    }

    fn run(kind: &str, words: &[&str]) -> Self {
        let mut child =
            Command::new("python3").args(adversary(kind, words)).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap().parse().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                seen.lock().unwrap().push(line);
            }
        });
        Self { child, port, requests }
    }

    pub fn spec(&self, name: &str) -> UpstreamSpec {
        http_spec(name, &format!("http://127.0.0.1:{}/mcp", self.port))
    }

    /// The event stream, with a key in its headers.
    pub fn sse_spec(&self, name: &str) -> UpstreamSpec {
        let headers = BTreeMap::from([("X-Key".to_owned(), "key".to_owned())]);
        let transport = TransportSpec::Sse { url: format!("http://127.0.0.1:{}/sse", self.port), headers };
        UpstreamSpec::new(name.into(), transport)
    }

    pub fn saw(&self, start: &str) -> usize {
        self.requests.lock().unwrap().iter().filter(|line| line.starts_with(start)).count()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn http_spec(name: &str, url: &str) -> UpstreamSpec {
    let transport = TransportSpec::Http { url: url.to_owned(), headers: BTreeMap::new() };
    UpstreamSpec::new(name.into(), transport)
}
