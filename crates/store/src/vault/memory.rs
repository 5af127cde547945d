//! A vault that forgets everything when the process ends. Writes nowhere.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use evi_domain::{Secret, SecretError, SecretId, SecretStore};

use crate::Redactor;

/// Secrets in memory: for tests, and for a session without keychain that the person chose.
#[derive(Default)]
pub struct MemoryVault {
    values: Mutex<BTreeMap<SecretId, Secret>>,
    redactor: Arc<Redactor>,
}

impl MemoryVault {
    /// An empty one; `redactor` hears of every value that is set.
    pub fn new(redactor: Arc<Redactor>) -> Self {
        Self { values: Mutex::default(), redactor }
    }

    fn values(&self) -> MutexGuard<'_, BTreeMap<SecretId, Secret>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SecretStore for MemoryVault {
    fn get(&self, id: &SecretId) -> Result<Option<Secret>, SecretError> {
        Ok(self.values().get(id).cloned())
    }
    fn set(&self, id: &SecretId, value: &Secret) -> Result<(), SecretError> {
        self.redactor.add(value);
        self.values().insert(id.clone(), value.clone());
        Ok(())
    }
    fn delete(&self, id: &SecretId) -> Result<(), SecretError> {
        self.values().remove(id);
        Ok(())
    }
    fn ids(&self) -> Vec<SecretId> {
        self.values().keys().cloned().collect()
    }
    fn probe(&self) -> Result<(), SecretError> {
        Ok(())
    }
}
