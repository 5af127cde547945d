//! How processes share a home: real sockets and, where it matters, real processes; no part of the application.

#![allow(clippy::unwrap_used)]

mod app;
mod bridging;
mod home;
mod rough;
mod support;
