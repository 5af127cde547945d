//! The rules of the house, read off cargo's metadata and the sources: one test per rule, and one that it can fail.

#[path = "architecture/planted.rs"]
mod planted;
#[path = "architecture/rules.rs"]
mod rules;
#[path = "architecture/sources.rs"]
mod sources;

use sources::{packages, sources as all};

#[track_caller]
fn assert_none(broken: &[String]) {
    assert!(broken.is_empty(), "{} broken:\n  {}", broken.len(), broken.join("\n  "));
}

#[test]
fn dependencies_point_inward_and_siblings_never_see_each_other() {
    assert_none(&rules::wrong_directions(&packages()));
}

#[test]
fn a_library_with_one_home_is_used_nowhere_else() {
    assert_none(&rules::libraries_away_from_home(&packages()));
}

#[test]
fn every_package_inherits_the_workspace_lints() {
    assert_none(&rules::packages_without_our_lints(&packages()));
}

#[test]
fn the_page_knows_tauri_only_in_its_host() {
    assert_none(&rules::tauri_imports_in_the_page(&all()));
}

#[test]
fn only_the_store_and_the_builtins_write_files() {
    assert_none(&rules::file_writes_outside_the_store(&all()));
}

#[test]
fn protocol_versions_are_named_only_in_upstreams_and_gateway() {
    assert_none(&rules::protocol_versions_outside_their_home(&all()));
}

#[test]
fn there_is_no_unsafe_code_outside_the_named_files() {
    assert_none(&rules::unsafe_code(&all()));
}

#[test]
fn every_rust_file_opens_with_its_purpose() {
    assert_none(&rules::files_without_a_purpose(&all()));
}

#[test]
fn no_file_is_longer_than_800_lines() {
    assert_none(&rules::files_too_long(&all()));
}

#[test]
fn every_exception_is_still_needed() {
    assert_none(&rules::needless_exceptions(&all()));
}

#[test]
fn names_say_what_a_thing_is() {
    assert_none(&rules::empty_names(&all()));
}

#[test]
fn no_file_names_a_machine_or_a_registry() {
    assert_none(&rules::traces_of_a_machine(&all()));
}

#[test]
fn every_test_that_the_invariants_name_exists() {
    assert_none(&rules::named_tests_that_are_missing(&all()));
}
