//! Why the endpoint does not serve, with what to do about it; what goes wrong within one request is an answer instead.

use std::{io, net::SocketAddr};

/// Why an address could not be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another program has the port. We never serve another port than asked.
    #[error("{addr} is in use; stop the program that has it, or choose another port")]
    PortBusy {
        /// What was asked for.
        addr: SocketAddr,
    },
    /// The host is no address of this machine.
    #[error("{host:?} is no address of this machine; use 127.0.0.1, ::1 or localhost")]
    UnknownHost {
        /// What was asked for.
        host: String,
    },
    /// The system said no.
    #[error("could not listen on {addr}: {source}")]
    Refused {
        /// What was asked for.
        addr: SocketAddr,
        /// What it said.
        #[source]
        source: io::Error,
    },
}

/// Why the endpoint did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// Another program has the port. We never serve another port than asked.
    #[error("{addr} is in use; stop the program that has it, or choose another port")]
    PortBusy {
        /// What was asked for.
        addr: SocketAddr,
    },
    /// The address could not be bound for another reason.
    #[error(transparent)]
    Bind(BindError),
    /// Other machines could reach the endpoint and no token keeps them out.
    #[error(
        "{addr} can be reached from other machines and there is no token; set a token, listen on 127.0.0.1, or say --insecure-no-auth"
    )]
    TokenRequired {
        /// What was asked for.
        addr: SocketAddr,
    },
    /// The byte stream broke.
    #[error("the connection to the client broke: {0}")]
    Broken(#[source] io::Error),
}

impl From<BindError> for GatewayError {
    fn from(error: BindError) -> Self {
        match error {
            BindError::PortBusy { addr } => Self::PortBusy { addr },
            other => Self::Bind(other),
        }
    }
}
