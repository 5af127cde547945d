//! Chats and the record of calls in the database.

use evi_domain::{
    CallId, ChatId, Journal as _, JournalEntry, MessageId,
    chat::{CallOutcome, Message, Role},
};
use evi_store::{Db, StoreError};

use crate::Scene;

fn message(id: &str, role: Role, text: &str) -> Message {
    Message {
        id: MessageId::new(id),
        at_ms: 1,
        role,
        text: text.into(),
        calls: vec![],
        answers: None,
        ended: None,
    }
}

#[test]
fn a_conversation_comes_back_after_a_restart_in_its_order() {
    let scene = Scene::new();
    let id = ChatId::fresh();
    let user = message("m1", Role::User, "list the files");
    let mut asks = message("m2", Role::Assistant, "");
    let call = serde_json::json!({
        "id": "c", "model_id": "call_1", "model_name": "filesystem_list_directory",
        "tool": "filesystem.list_directory", "arguments": {"z": 1, "path": "/data"},
    });
    asks.calls.push(serde_json::from_value(call).unwrap());
    let mut answer = message("m3", Role::Tool, "[FILE] a");
    answer.answers = Some(CallOutcome {
        call: CallId::new("c"),
        outcome: "ok".into(),
        took_ms: 7,
        result: Some(serde_json::json!({"content": []})),
        chars: Some(3),
        kept: None,
    });
    {
        let chats = Db::open(&scene.home).unwrap().chats();
        chats.chat_create(&id, "list the files").unwrap();
        for message in [&user, &asks, &answer] {
            chats.message_put(&id, message).unwrap();
        }
        asks.text = "here they are".into();
        chats.message_put(&id, &asks).unwrap();
    }
    let chats = Db::open(&scene.home).unwrap().chats();
    let (head, messages) = chats.chat_get(&id).unwrap();
    assert_eq!((head.title.as_str(), &head.id), ("list the files", &id));
    assert_eq!(messages, vec![user, asks, answer]);
    chats.chat_rename(&id, "files").unwrap();
    assert_eq!(chats.chat_list().unwrap()[0].title, "files");
    chats.chat_delete(&id).unwrap();
    assert!(chats.chat_list().unwrap().is_empty());
    assert!(matches!(chats.chat_get(&id), Err(StoreError::UnknownChat(_))));
    assert!(matches!(chats.chat_delete(&id), Err(StoreError::UnknownChat(_))));
    let lost = chats.message_put(&id, &message("m", Role::User, ""));
    assert!(matches!(lost, Err(StoreError::UnknownChat(_))));
    chats.chat_create(&id, "again").unwrap();
    assert!(chats.chat_get(&id).unwrap().1.is_empty(), "messages of a removed chat came back");
}

#[test]
fn the_chat_that_changed_last_is_the_first() {
    let scene = Scene::new();
    let chats = Db::open(&scene.home).unwrap().chats();
    let (a, b) = (ChatId::new("a"), ChatId::new("b"));
    let old = chats.chat_create(&a, "a").unwrap();
    chats.chat_create(&b, "b").unwrap();
    // Until the clock has moved on.
    while chats.chat_list().unwrap()[0].updated_ms <= old.updated_ms || chats.chat_list().unwrap()[0].id != a
    {
        chats.message_put(&a, &message("m", Role::User, "x")).unwrap();
    }
    assert_eq!(chats.chat_list().unwrap()[1].id, b);
}

#[test]
fn two_processes_write_to_one_database() {
    let scene = Scene::new();
    let id = ChatId::new("a");
    Db::open(&scene.home).unwrap().chats().chat_create(&id, "a").unwrap();
    std::thread::scope(|scope| {
        for who in ["a", "b"] {
            let (home, id) = (scene.home.clone(), id.clone());
            scope.spawn(move || {
                let chats = Db::open(&home).unwrap().chats();
                for n in 0..50 {
                    chats.message_put(&id, &message(&format!("{who}{n}"), Role::User, "x")).unwrap();
                }
            });
        }
    });
    assert_eq!(Db::open(&scene.home).unwrap().chats().chat_get(&id).unwrap().1.len(), 100);
}

#[test]
fn a_newer_database_is_read_with_a_notice_and_not_written() {
    let scene = Scene::new();
    let id = ChatId::new("a");
    {
        let db = Db::open(&scene.home).unwrap();
        assert_eq!(db.notice(), None);
        db.chats().chat_create(&id, "kept").unwrap();
    }
    let newer = rusqlite::Connection::open(scene.home.db()).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    drop(newer);
    let db = Db::open(&scene.home).unwrap();
    let notice = db.notice().unwrap();
    assert!(notice.contains("version 99") && notice.contains("read-only"), "{notice}");
    assert_eq!(db.chats().chat_list().unwrap()[0].title, "kept");
    assert!(matches!(db.chats().chat_create(&ChatId::new("b"), "b"), Err(StoreError::NewerDb { .. })));
    assert!(matches!(db.chats().chat_rename(&id, "b"), Err(StoreError::NewerDb { found: 99, .. })));
    let journal = db.journal().unwrap();
    journal.record(JournalEntry {
        id: CallId::new("c"),
        at_ms: 1,
        caller: "chat".into(),
        tool: "remember".into(),
        arguments: "{}".into(),
        outcome: "ok".into(),
        took_ms: 1,
    });
    assert_eq!((journal.recent(10).len(), journal.dropped()), (0, 1));
}

#[test]
fn a_file_that_is_no_database_is_kept_under_another_name_and_a_new_one_begun() {
    let scene = Scene::new();
    scene.home.prepare().unwrap();
    let text = "this is a text and not a database at all";
    std::fs::write(scene.home.db(), text).unwrap();
    let db = Db::open(&scene.home).unwrap();
    db.chats().chat_create(&"c".into(), "new").unwrap();
    let kept: Vec<_> = std::fs::read_dir(scene.home.state())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("evi.db.damaged-"))
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(std::fs::read_to_string(&kept[0]).unwrap(), text);
    assert!(db.notice().unwrap().contains(&kept[0].display().to_string()));
}
