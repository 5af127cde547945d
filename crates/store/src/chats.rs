//! Conversations in the database: a head each, and their messages as JSON. Knows nothing of models.

use std::time::{SystemTime, UNIX_EPOCH};

use evi_domain::{
    ChatId,
    chat::{ChatHead, Message},
};
use rusqlite::{OptionalExtension as _, Row, TransactionBehavior, params};

use crate::{StoreError, db::Db};

/// The chats of a home. Its calls touch the disk: use a blocking thread.
#[derive(Clone)]
pub struct ChatStore {
    db: Db,
}

impl ChatStore {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Begins a conversation without messages.
    ///
    /// # Errors
    /// `NewerDb`; what SQLite says, for an id that is taken too.
    pub fn chat_create(&self, id: &ChatId, title: &str) -> Result<ChatHead, StoreError> {
        self.db.writable()?;
        let now = now_ms();
        self.db
            .connection()
            .execute(
                "INSERT INTO chats (id, title, created_ms, updated_ms) VALUES (?1, ?2, ?3, ?3)",
                params![id.as_str(), title, signed(now)],
            )
            .map_err(StoreError::db("write to"))?;
        Ok(ChatHead { id: id.clone(), title: title.to_owned(), created_ms: now, updated_ms: now })
    }

    /// All conversations, the one that changed last first.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn chat_list(&self) -> Result<Vec<ChatHead>, StoreError> {
        let connection = self.db.connection();
        let mut statement = connection
            .prepare_cached(
                "SELECT id, title, created_ms, updated_ms FROM chats ORDER BY updated_ms DESC, id DESC",
            )
            .map_err(StoreError::db("read"))?;
        let heads = statement.query_map([], head).map_err(StoreError::db("read"))?;
        heads.collect::<Result<_, _>>().map_err(StoreError::db("read"))
    }

    /// A conversation and its messages in the order in which they were first put.
    ///
    /// # Errors
    /// `UnknownChat`, `Corrupt`; what SQLite says.
    pub fn chat_get(&self, id: &ChatId) -> Result<(ChatHead, Vec<Message>), StoreError> {
        let connection = self.db.connection();
        let head = connection
            .query_row(
                "SELECT id, title, created_ms, updated_ms FROM chats WHERE id = ?1",
                [id.as_str()],
                head,
            )
            .optional()
            .map_err(StoreError::db("read"))?
            .ok_or_else(|| StoreError::UnknownChat(id.clone()))?;
        let mut statement = connection
            .prepare_cached("SELECT body FROM messages WHERE chat = ?1 ORDER BY seq")
            .map_err(StoreError::db("read"))?;
        let mut rows = statement.query([id.as_str()]).map_err(StoreError::db("read"))?;
        let mut messages = Vec::new();
        while let Some(row) = rows.next().map_err(StoreError::db("read"))? {
            let body: String = row.get(0).map_err(StoreError::db("read"))?;
            messages.push(serde_json::from_str(&body).map_err(|source| corrupt(id, source))?);
        }
        Ok((head, messages))
    }

    /// Adds a message at the end, or replaces the one of that id in its place.
    ///
    /// # Errors
    /// `UnknownChat`, `NewerDb`; what SQLite says.
    pub fn message_put(&self, chat: &ChatId, message: &Message) -> Result<(), StoreError> {
        self.db.writable()?;
        let body = serde_json::to_string(message).map_err(|source| corrupt(chat, source))?;
        let mut connection = self.db.connection();
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(StoreError::db("write to"))?;
        let touched = transaction
            .execute(
                "UPDATE chats SET updated_ms = ?2 WHERE id = ?1",
                params![chat.as_str(), signed(now_ms())],
            )
            .map_err(StoreError::db("write to"))?;
        if touched == 0 {
            return Err(StoreError::UnknownChat(chat.clone()));
        }
        transaction
            .execute(
                "INSERT INTO messages (chat, id, seq, body)
                 VALUES (?1, ?2, (SELECT coalesce(max(seq), 0) + 1 FROM messages WHERE chat = ?1), ?3)
                 ON CONFLICT (chat, id) DO UPDATE SET body = excluded.body",
                params![chat.as_str(), message.id.as_str(), body],
            )
            .map_err(StoreError::db("write to"))?;
        transaction.commit().map_err(StoreError::db("write to"))
    }

    /// Gives a conversation another title.
    ///
    /// # Errors
    /// `UnknownChat`, `NewerDb`; what SQLite says.
    pub fn chat_rename(&self, id: &ChatId, title: &str) -> Result<(), StoreError> {
        self.one(id, "UPDATE chats SET title = ?2 WHERE id = ?1", params![id.as_str(), title])
    }

    /// Removes a conversation with its messages.
    ///
    /// # Errors
    /// `UnknownChat`, `NewerDb`; what SQLite says.
    pub fn chat_delete(&self, id: &ChatId) -> Result<(), StoreError> {
        self.one(id, "DELETE FROM chats WHERE id = ?1", params![id.as_str()])
    }

    fn one(&self, id: &ChatId, sql: &str, values: impl rusqlite::Params) -> Result<(), StoreError> {
        self.db.writable()?;
        match self.db.connection().execute(sql, values).map_err(StoreError::db("write to"))? {
            0 => Err(StoreError::UnknownChat(id.clone())),
            _ => Ok(()),
        }
    }
}

fn head(row: &Row<'_>) -> rusqlite::Result<ChatHead> {
    Ok(ChatHead {
        id: ChatId::new(row.get::<_, String>(0)?),
        title: row.get(1)?,
        created_ms: unsigned(row.get(2)?),
        updated_ms: unsigned(row.get(3)?),
    })
}

fn corrupt(chat: &ChatId, source: serde_json::Error) -> StoreError {
    StoreError::Corrupt { what: format!("chat {chat}"), source }
}

fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// SQLite's numbers are signed; times before 1970 and after the year 292 million do not occur.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
