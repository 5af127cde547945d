//! Writes `contract.ts` into the folder given; `cargo xtask gen` runs it.

use std::{env, fs, path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: typescript FOLDER");
        return ExitCode::from(2);
    };
    match fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join("contract.ts"), evi_contract::typescript::contract_ts()))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: could not write contract.ts: {error}");
            ExitCode::FAILURE
        }
    }
}
