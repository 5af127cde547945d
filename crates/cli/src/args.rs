//! The arguments of the command line, in the words of eVi's original.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Both sides of the Model Context Protocol on your own machine.
#[derive(Parser)]
#[command(name = "evi", version, about, disable_help_subcommand = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Servers, their tools, resources and prompts, and serving other applications
    #[command(subcommand, arg_required_else_help = true)]
    Mcp(Mcp),
    /// Plugins: folders that bring servers, commands and skills
    #[command(subcommand, arg_required_else_help = true)]
    Plugin(Plugin),
    /// The window's page in a browser on this machine
    Web(Web),
}

#[derive(Subcommand)]
pub enum Mcp {
    /// Print the path of mcp.json
    Path,
    /// List the configured servers
    ListServers {
        /// Print JSON, with the state of each in a running eVi
        #[arg(long)]
        json: bool,
    },
    /// Add a server that is started as a program
    Add(Add),
    /// Add a server that is reached over HTTP
    AddHttp(AddHttp),
    /// Remove a server and its secrets
    Remove {
        /// The server's name
        name: String,
    },
    /// Switch a server on
    Enable {
        /// The server's name
        name: String,
    },
    /// Switch a server off
    Disable {
        /// The server's name
        name: String,
    },
    /// Start the servers and list every tool they have
    ListTools {
        /// Print JSON, with the schema of each
        #[arg(long)]
        json: bool,
    },
    /// Call a tool
    Call(Call),
    /// List what can be read at the servers, and the templates of addresses
    ListResources(Listing),
    /// Read a resource
    Read(Read),
    /// List the prompts of the servers, each with its arguments
    ListPrompts(Listing),
    /// Print the messages of a prompt
    Prompt(Prompt),
    /// Print what a server wrote: its stderr, and what is not the protocol
    Logs(Logs),
    /// Serve tools, memories and prompts to another application
    Serve(Serve),
    /// Print the block that connects another application
    ServeConfig(ServeConfig),
}

#[derive(Subcommand)]
pub enum Plugin {
    /// List the plugins and what they bring
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Switch a plugin on
    Enable {
        /// The plugin's name
        name: String,
    },
    /// Switch a plugin off, with its servers and commands
    Disable {
        /// The plugin's name
        name: String,
    },
    /// Move a plugin's folder into the trash
    Remove {
        /// The plugin's name
        name: String,
    },
}

#[derive(Args)]
pub struct Add {
    /// A name for it; its tools are <name>.<tool>
    pub name: String,
    /// The program: a path, or a name to search for
    pub command: String,
    /// Its arguments; write -- before those that begin with a dash
    pub args: Vec<String>,
    /// An environment value (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub env: Vec<String>,
    /// Its working folder
    #[arg(long, value_name = "FOLDER")]
    pub cwd: Option<PathBuf>,
    #[command(flatten)]
    pub settings: Settings,
    #[command(flatten)]
    pub keeping: Keeping,
}

/// Settings of an added server.
#[derive(Args)]
pub struct Settings {
    /// How it is spoken to: auto, legacy or modern
    #[arg(long, value_name = "ERA")]
    pub era: Option<String>,
    /// Seconds that a call may take without a sign of life
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u32>,
}

/// How an added server is kept.
#[derive(Args)]
pub struct Keeping {
    /// Keep the values of --env or -H in the keychain; the file holds references
    #[arg(long)]
    pub secret: bool,
    /// Add it switched off
    #[arg(long)]
    pub disabled: bool,
    /// Replace a server of that name
    #[arg(long)]
    pub overwrite: bool,
}

#[derive(Args)]
pub struct AddHttp {
    /// A name for it; its tools are <name>.<tool>
    pub name: String,
    /// Its address
    pub url: String,
    /// A request header (repeatable)
    #[arg(short = 'H', long = "header", value_name = "KEY=VALUE")]
    pub headers: Vec<String>,
    /// It speaks the older HTTP+SSE
    #[arg(long)]
    pub sse: bool,
    /// A PEM file of certificates to trust besides the system's
    #[arg(long, value_name = "FILE")]
    pub ca: Option<String>,
    #[command(flatten)]
    pub settings: Settings,
    #[command(flatten)]
    pub keeping: Keeping,
}

#[derive(Args)]
pub struct Call {
    /// The tool, as list-tools shows it
    pub tool: String,
    /// name=value, name:=json, or one JSON object
    pub arguments: Vec<String>,
    /// Print the whole result object as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Listing {
    /// Only this server's
    pub name: Option<String>,
    /// Print JSON, with each definition as its server gave it
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Read {
    /// The server's name
    pub name: String,
    /// The resource's address, as list-resources shows it; a template's with its variables filled in
    pub uri: String,
    /// Write it to a file, decoded, in place of printing it
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the whole result object as JSON
    #[arg(long, conflicts_with = "output")]
    pub json: bool,
}

#[derive(Args)]
pub struct Prompt {
    /// The server's name
    pub name: String,
    /// The prompt's name, as list-prompts shows it
    pub prompt: String,
    /// Its arguments
    #[arg(value_name = "KEY=VALUE")]
    pub arguments: Vec<String>,
    /// Print the whole result object as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Logs {
    /// The server's name
    pub name: String,
    /// Go on with what it writes from now on
    #[arg(short, long)]
    pub follow: bool,
    /// Print each line as a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Serve {
    /// Categories of tools in place of the profile: memory,index,calendar,git, or mcp for all servers
    #[arg(short, long, value_delimiter = ',')]
    pub categories: Option<Vec<String>>,
    /// Exact tool names in place of the profile
    #[arg(long, value_delimiter = ',')]
    pub tools: Option<Vec<String>>,
    /// A profile of config.toml
    #[arg(long)]
    pub profile: Option<String>,
    /// Streamable HTTP in place of standard input and output
    #[arg(long)]
    pub http: bool,
    /// With --http: the address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    /// With --http: the port to listen on
    #[arg(long, default_value_t = 8765, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// With --http: what clients send as Authorization: Bearer; better given in EVI_MCP_TOKEN
    #[arg(long, env = "EVI_MCP_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// With --http: let other machines in without a token
    #[arg(long)]
    pub insecure_no_auth: bool,
}

#[derive(Args)]
pub struct ServeConfig {
    /// For which application: claude-desktop, claude-code, cursor, vscode, cline, continue, windsurf, codex, gemini, zed, goose, opencode
    #[arg(long)]
    pub client: Option<String>,
    /// Categories of tools in place of the profile
    #[arg(short, long)]
    pub categories: Option<String>,
    /// A profile of config.toml
    #[arg(long)]
    pub profile: Option<String>,
    /// Over HTTP, to the desktop's gateway
    #[arg(long)]
    pub http: bool,
}

#[derive(Args)]
pub struct Web {
    /// The address to listen on; it stays on this machine
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    /// The port to listen on; 0 lets the system choose
    #[arg(long, default_value_t = 8000)]
    pub port: u16,
}
