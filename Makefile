# On a fresh Debian 12: `make demo` and `make test` install what is missing, build, and run.
# Everything else is cargo; `cargo xtask --help` lists the project's own checks.

# rustup's cargo, where a login shell has not put it on the PATH; a cargo on the PATH wins. And numad, if it was fetched.
export PATH := $(PATH):$(HOME)/.cargo/bin:$(CURDIR)/target/numad/usr/bin

PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
# Cargo.lock is the truth: a build never changes it.
LOCKED := --locked
# Where cargo builds, also when CARGO_TARGET_DIR or a configuration file says so.
TARGET = $(shell $(CARGO) metadata --format-version 1 --no-deps $(LOCKED) 2>/dev/null \
	| sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
XTASK := $(CARGO) run --quiet $(LOCKED) --package xtask --

# Two cores run one guest at a time, and cargo locks its folder anyway.
.NOTPARALLEL:

.PHONY: help deps deps-demo build demo results test format clippy docs check-deps tidy tests loom bench lint \
	man clean install

help: ## This list
	@echo "Quartier: threads and their memory in the same neighbourhood."
	@echo
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20
	@echo
	@echo "On a fresh Debian 12, \`make demo\` and \`make test\` need nothing else."

deps: ## Install what building and testing need, if anything is missing
	@sh xtask/deps.sh build

deps-demo: deps
	@sh xtask/deps.sh demo

build: deps ## Build the command, and the libraries that it loads into programs and into QEMU
	$(CARGO) build --release $(LOCKED) --package quartier-cli --package quartier-daemon \
		--package quartier-runtime --package quartier-plugin

demo: build deps-demo ## One real program under four policies, on a machine of four nodes, counted
	$(XTASK) demo

results: build ## Real programs under every policy, counted, for docs/results (hours)
	@sh xtask/deps.sh results
	$(XTASK) results

test: lint tests loom ## Everything that must hold before a commit

lint: format clippy docs check-deps tidy ## The checks that run nothing

format: deps
	$(CARGO) fmt --all --check

clippy: deps
	$(CARGO) clippy --workspace --all-targets $(LOCKED) -- --deny warnings

# The shared object's library has the name of the crate that it is made of, and nothing to read.
docs: deps
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --quiet --workspace --exclude quartier-runtime \
		--no-deps $(LOCKED)

check-deps: deps
	$(XTASK) check-deps

tidy: deps
	$(XTASK) tidy

# The guest tests run the command with the library beside it, so both are there first.
tests: deps
	$(CARGO) build --workspace $(LOCKED)
	$(CARGO) test --workspace --no-fail-fast $(LOCKED)

loom: deps
	$(XTASK) loom

bench: deps ## Benchmarks (ratios on one machine; nothing here is a NUMA time)
	$(CARGO) bench --workspace $(LOCKED)

man: deps ## Man pages and shell completions, from the command line's one definition
	$(XTASK) pages "$(TARGET)/pages"

install: build man ## Install below $(DESTDIR)$(PREFIX)
	install -D -m 755 "$(TARGET)/release/quartier" "$(DESTDIR)$(PREFIX)/bin/quartier"
	install -D -m 755 "$(TARGET)/release/quartierd" "$(DESTDIR)$(PREFIX)/sbin/quartierd"
	for library in libquartier_preload.so libquartier_plugin.so; do \
		install -D -m 755 "$(TARGET)/release/$$library" \
			"$(DESTDIR)$(PREFIX)/lib/quartier/$$library" || exit 1; \
	done
	install -d "$(DESTDIR)$(PREFIX)/share/man/man1"
	install -m 644 "$(TARGET)"/pages/man/*.1 "$(DESTDIR)$(PREFIX)/share/man/man1/"
	install -D -m 644 "$(TARGET)/pages/completions/quartier.bash" \
		"$(DESTDIR)$(PREFIX)/share/bash-completion/completions/quartier"
	install -D -m 644 "$(TARGET)/pages/completions/_quartier" \
		"$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_quartier"
	install -D -m 644 "$(TARGET)/pages/completions/quartier.fish" \
		"$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/quartier.fish"

clean: ## Remove what was built (kernels that the lab fetched stay in its cache)
	$(CARGO) clean
	rm -rf demo-out
