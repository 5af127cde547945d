//! Developer commands, started as `cargo xtask …`; nothing here is part of the product or is called by it.

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

mod bench;
mod check;
mod command;
mod conformance;
mod generate;
mod package;
mod page;
mod peers;
mod places;
mod stages;
mod system;
mod tools;

/// Build, start, test and package eVi.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what is missing, build the page and the application, and open the window
    Run {
        /// Arguments for the application itself
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Install what is missing and nothing else
    Setup {
        /// Also what the tests need
        #[arg(long)]
        tests: bool,
        /// Also what packaging needs
        #[arg(long)]
        packages: bool,
    },
    /// Run every test stage in order, or only the named ones
    Test {
        /// Stages to run, in the order given
        stages: Vec<stages::Stage>,
    },
    /// Check formatting, lints, licences, generated files and the rules of the repository
    Check,
    /// Write the generated files anew
    Gen {
        /// Change nothing, fail when something is out of date
        #[arg(long, conflicts_with_all = ["snapshots", "pictures"])]
        check: bool,
        /// Also accept the tests' new snapshots
        #[arg(long)]
        snapshots: bool,
        /// Also take the pictures in docs/pictures again
        #[arg(long)]
        pictures: bool,
    },
    /// Measure start, call overhead and memory
    Bench,
    /// Run the official conformance suite
    Conformance,
    /// Build installable packages for this system
    Package {
        /// Package kinds, as the bundler names them (default: those of this system)
        #[arg(long, value_delimiter = ',')]
        bundles: Vec<String>,
    },
}

/// A command that cannot be carried out as asked: misuse, or not built yet.
#[derive(Debug)]
struct Misuse(String);

impl std::fmt::Display for Misuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

fn main() -> ExitCode {
    match carry_out(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(if error.is::<Misuse>() { 2 } else { 1 })
        }
    }
}

fn carry_out(task: Task) -> Result<()> {
    let places = places::Places::find()?;
    match task {
        Task::Run { arguments } => page::run(&places, &arguments),
        Task::Setup { tests, packages } => system::install(tests, packages),
        Task::Test { stages } => stages::test(&places, &stages),
        Task::Check => check::check(&places),
        Task::Gen { check: true, .. } => generate::check(&places),
        Task::Gen { snapshots, pictures, .. } => generate::write(&places, snapshots, pictures),
        Task::Bench => bench::bench(&places),
        Task::Conformance => conformance::conformance(),
        Task::Package { bundles } => package::package(&places, &bundles),
    }
}
