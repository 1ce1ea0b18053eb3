//! Several files with one id: which of them is the session.

use std::fs;

use pretty_assertions::assert_eq;

use super::super::*;
use super::{Home, ids, user};

#[tokio::test]
async fn a_second_file_with_an_id_is_a_copy_whichever_comes_first() {
    let home = Home::new();
    let copy = home.file("a/a-copy.jsonl", "s1", &[user("1", 9, "copy")]);
    let index = home.open();
    index.settled().await;
    assert_eq!(ids(&index).await, ["s1"]);
    // The file that is named after the session takes its id back.
    let original = home.session("b", "s1", &[user("1", 5, "original")]);
    index.reconcile();
    index.settled().await;
    let page = index.list(ListQuery::default()).await.unwrap();
    let shown: Vec<_> = page.rows.iter().map(|row| (row.path.clone(), row.duplicate_of.clone())).collect();
    assert_eq!(shown, [(copy.clone(), Some("s1".into())), (original.clone(), None)]);
    let derived = page.rows[0].session_id.clone();
    assert!(derived.as_str().starts_with("s1-"));
    assert_eq!(index.find(derived.as_str()).await.unwrap()[0].path, copy);
    assert_eq!(index.find("s1").await.unwrap()[0].path, original);
    // The same after all was made again.
    index.close().await;
    fs::remove_file(home.db()).unwrap();
    let index = home.open();
    index.settled().await;
    assert_eq!(index.find("s1").await.unwrap()[0].path, original);
    // The last file left is the session.
    fs::remove_file(&original).unwrap();
    index.reconcile();
    index.settled().await;
    let page = index.list(ListQuery::default()).await.unwrap();
    assert_eq!((page.rows[0].session_id.as_str(), &page.rows[0].duplicate_of), ("s1", &None));
}

/// A copy does not get the id because its folder comes first, nor because it is looked at first.
#[tokio::test]
async fn the_id_stays_with_the_file_that_had_it() {
    let home = Home::new();
    // Neither has the folder or the name that a program would give.
    let first = home.session("m", "s1", &[]);
    let index = home.open();
    index.settled().await;
    let copy = home.root().join("a").join(first.file_name().unwrap());
    fs::create_dir_all(copy.parent().unwrap()).unwrap();
    fs::copy(&first, &copy).unwrap();
    index.reconcile();
    index.settled().await;
    assert_eq!(index.find("s1").await.unwrap()[0].path, first);
    let page = index.list(ListQuery::default()).await.unwrap();
    let shown_as_copy = page.rows.iter().find(|row| row.duplicate_of.is_some()).map(|row| row.path.clone());
    assert_eq!(shown_as_copy, Some(copy));
    // One with the folder of its working directory is told from a copy without knowing which came first.
    let (original, copy) = ("m/1970-01-01T00-00-00-001Z_s2.jsonl", "a/1970-01-01T00-00-00-001Z_s2.jsonl");
    let original = home.file(original, "s2", &[]);
    let header = fs::read_to_string(&original).unwrap().replace("/w/m", "/m");
    let original = home.root().join("--m--").join(original.file_name().unwrap());
    fs::create_dir_all(original.parent().unwrap()).unwrap();
    fs::rename(home.root().join("m/1970-01-01T00-00-00-001Z_s2.jsonl"), &original).unwrap();
    fs::write(&original, &header).unwrap();
    fs::write(home.root().join(copy), &header).unwrap();
    index.close().await;
    fs::remove_file(home.db()).unwrap();
    let index = home.open();
    index.settled().await;
    assert_eq!(index.find("s2").await.unwrap()[0].path, original);
}
