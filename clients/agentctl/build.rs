//! Strips the program when it is built for size, which the profile `dist` does: cargo 1.95 forgets the profile's
//! `strip` for a package that has settings of its own in the profile.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("OPT_LEVEL").is_some_and(|level| level == "s") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
}
