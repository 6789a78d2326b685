# On a fresh Debian 12: `make demo` and `make test` install what is missing, build, and run.
# Everything else is cargo; `cargo xtask --help` lists the project's own checks.

# rustup's cargo, where a login shell has not put it on the PATH; a cargo on the PATH wins. And numad, if it was fetched.
export PATH := $(PATH):$(HOME)/.cargo/bin:$(CURDIR)/target/numad/usr/bin

PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
# Below $(PREFIX); Debian's zsh looks for those of packages in share/zsh/vendor-completions.
ZSH_COMPLETIONS ?= share/zsh/site-functions
DESTDIR ?=
# What `build`, `install` and `deb` build: `release`, or `dev` to try them.
PROFILE ?= release
CARGO ?= cargo
# No pom names a repository: where Maven fetches from is the machine's own configuration.
MVN ?= mvn
MAVEN = $(MVN) --batch-mode --no-transfer-progress --file degrade/pom.xml -Dorg.slf4j.simpleLogger.defaultLogLevel=warn
# The Java agent, where Maven puts it.
JAR ?= degrade/agent/target/quartier-degrade.jar
# Cargo.lock is the truth: a build never changes it.
LOCKED := --locked
# Where cargo builds, also when CARGO_TARGET_DIR or a configuration file says so.
TARGET = $(shell $(CARGO) metadata --format-version 1 --no-deps $(LOCKED) 2>/dev/null \
	| sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
BUILT = $(TARGET)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
XTASK := $(CARGO) run --quiet $(LOCKED) --package xtask --
# All that `cargo test` builds, and the libraries that nobody links. Of less, features would differ, and what it depends on would
# be built twice.
BUILD_OF_TESTS = $(CARGO) build --workspace --lib --bins --tests $(LOCKED)
XTASK_OF_TESTS = $(BUILD_OF_TESTS) && "$(TARGET)/debug/xtask"

# Two cores run one guest at a time, and cargo locks its folder anyway.
.NOTPARALLEL:

.PHONY: help deps deps-demo build demo results test format clippy docs check-deps tidy tests loom degrade degrade-jar degrade-bench degrade-environments scale-planted scale-programs \
	percore-counted served \
	bench lint man clean install stage deb

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
	$(CARGO) build --profile $(PROFILE) $(LOCKED) --package quartier-cli --package quartier-daemon \
		--package quartier-runtime --package quartier-plugin --package quartier-reuseport --package quartier-sites

demo: build deps-demo ## One real program under four policies, on a machine of four nodes, counted
	$(XTASK) demo

results: build ## Real programs under every policy, counted, for docs/results (hours)
	@sh xtask/deps.sh results
	$(XTASK) results

# The tests of the command put the agent into JVMs, so it is built before them.
test: lint degrade tests loom ## Everything that must hold before a commit

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
	$(XTASK_OF_TESTS) check-deps

tidy: deps
	$(XTASK_OF_TESTS) tidy

# The guest tests run the command with the library beside it, so both are there first.
tests: deps
	$(BUILD_OF_TESTS)
	$(CARGO) test --workspace --no-fail-fast $(LOCKED)

loom: deps
	$(XTASK_OF_TESTS) loom

# Warnings, failures, and how many tests ran.
degrade: deps ## The Java agent (degrade/agent/target/quartier-degrade.jar), built and tested
	$(MAVEN) --fail-at-end -Dorg.slf4j.simpleLogger.log.org.apache.maven.plugin.surefire=info verify

degrade-jar: deps ## The same, built only, and put beside the command
	$(MAVEN) --projects agent --also-make -DskipTests package
	install -D -m 644 "$(JAR)" "$(BUILT)/quartier-degrade.jar"

# Nothing else may run meanwhile.
scale-planted: build ## How often `quartier scale` is right about a planted culprit, for docs/results (an hour)
	$(XTASK) scale-planted --quartier "$(BUILT)/quartier"

# 90 guests of 10 to 45 s each: three quarters of an hour. Others may run meanwhile, what is counted stays the same.
percore-counted: build ## Who takes whose line, percore's parts and others', on 4 to 32 CPUs, for docs/percore.md (an hour)
	$(XTASK) percore-counted --quartier "$(BUILT)/quartier"

# Guests of minutes each; what is there stays, so it may be interrupted.
served: build ## WordPress behind stock web servers and behind `quartier serve`, counted, for docs/results (hours)
	@sh xtask/deps.sh results
	$(XTASK) served --quartier "$(BUILT)/quartier"

# The same guests for all programs, so that they are comparable; what there is of one that cannot be counted stays as it is.
KERNELS ?= 6.12 7.3
STUDYS_PROGRAMS := exim memcached apache postgresql gmake indexer mapreduce
SCALE_PROGRAMS := docs/results/scale/programs
SCALE_GUESTS := --nodes 4 --cpus-per-node 8 --mem 8G --cpus 4,8,16,32 --repeat 3 --seed 1 --hang-timeout 600 --timeout 3600
scale-programs: build ## What stops the study's seven programs from scaling on 4 to 32 CPUs of guests, for docs/results (hours)
	@sh xtask/deps.sh programs
	mkdir -p $(SCALE_PROGRAMS)
	@for kernel in $(KERNELS); do for program in $(STUDYS_PROGRAMS); do \
		result=$(SCALE_PROGRAMS)/$$program-$$kernel; \
		"$(BUILT)/quartier" lab scale --program $$program --kernel $$kernel $(SCALE_GUESTS) --json $$result.json >$$result.new; \
		case $$? in \
		0 | 1) mv $$result.new $$result.txt ;; \
		130 | 143) rm -f $$result.new; exit 1 ;; \
		*) rm -f $$result.new; echo "$$program is skipped on Linux $$kernel: it could not be counted, as said above" >&2 ;; \
		esac; \
	done; done

# Nothing else may run meanwhile.
degrade-bench: deps ## Who gets slow under overload, by policy, on real servers, for docs/results (two hours)
	$(MAVEN) --quiet --projects bench --also-make -DskipTests package
	$(XTASK) degrade-bench

# All held to the same targets, so that they are comparable.
ENVIRONMENTS := docs/results/degrade/environments
# The same targets in all of them: by what `make degrade-bench` tells of the light service's p95 without heavy requests on this machine.
ALONE_MS ?= 23
IN_ENVIRONMENT = $(XTASK) degrade-bench --heavy 0,20,40 --loops closed --warm-seconds 1.5 --seconds 4 --alone-ms $(ALONE_MS)
degrade-environments: deps ## Whether that is the same whatever the kernel does, for docs/results (an hour)
	$(MAVEN) --quiet --projects bench --also-make -DskipTests package
	$(IN_ENVIRONMENT) --variants unmodified,protect,curve,jetty,jetty-protect,jetty-curve --out $(ENVIRONMENTS)/as-they-come
	for under in slices-of-100-us slices-of-100-ms batch nice; do \
		$(IN_ENVIRONMENT) --variants unmodified,protect,curve --under $$under --out $(ENVIRONMENTS)/$$under || exit 1; \
	done
	$(IN_ENVIRONMENT) --variants unmodified,protect,curve --java-home "$(TARGET)/jdks/21" --out $(ENVIRONMENTS)/jdk-21
	$(XTASK) degrade-bench --across --out $(ENVIRONMENTS)

bench: deps ## Benchmarks (ratios on one machine; nothing here is a NUMA time)
	$(CARGO) bench --workspace $(LOCKED)

man: deps ## Man pages and shell completions, from the one definition of each command line
	$(XTASK) pages "$(TARGET)/pages"

install: build degrade-jar man stage ## Install below $(DESTDIR)$(PREFIX); a configuration that is there stays

# What was built, to where it is installed.
stage:
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/sbin" "$(DESTDIR)$(PREFIX)/lib/quartier"
	install -m 755 "$(BUILT)/quartier" "$(DESTDIR)$(PREFIX)/bin/quartier"
	install -m 755 "$(BUILT)/quartierd" "$(DESTDIR)$(PREFIX)/sbin/quartierd"
	install -m 755 "$(BUILT)/libquartier_preload.so" "$(BUILT)/libquartier_plugin.so" \
		"$(BUILT)/libquartier_clock.so" \
		"$(BUILT)/libquartier_reuseport.so" "$(BUILT)/libquartier_sites.so" "$(DESTDIR)$(PREFIX)/lib/quartier/"
	install -m 644 "$(JAR)" "$(DESTDIR)$(PREFIX)/lib/quartier/quartier-degrade.jar"
	for section in 1 8; do \
		install -d "$(DESTDIR)$(PREFIX)/share/man/man$$section" && \
		install -m 644 "$(TARGET)"/pages/man/*.$$section \
			"$(DESTDIR)$(PREFIX)/share/man/man$$section/" || exit 1; \
	done
	for program in quartier quartierd; do \
		install -D -m 644 "$(TARGET)/pages/completions/$$program.bash" \
			"$(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$program" && \
		install -D -m 644 "$(TARGET)/pages/completions/_$$program" \
			"$(DESTDIR)$(PREFIX)/$(ZSH_COMPLETIONS)/_$$program" && \
		install -D -m 644 "$(TARGET)/pages/completions/$$program.fish" \
			"$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$$program.fish" || exit 1; \
	done
	install -D -m 644 docs/quartierd.md "$(DESTDIR)$(PREFIX)/share/doc/quartier/quartierd.md"
	install -m 644 docs/degrade.md "$(DESTDIR)$(PREFIX)/share/doc/quartier/degrade.md"
	install -d "$(DESTDIR)$(PREFIX)/lib/systemd/system"
	for unit in apps/daemon/quartierd.service apps/cli/quartier-serve@.service; do \
		installed="$(DESTDIR)$(PREFIX)/lib/systemd/system/$${unit##*/}" && \
		sed -E 's,/usr/(s?bin/quartier|share/doc),$(PREFIX)/\1,g' "$$unit" >"$$installed" && \
		chmod 644 "$$installed" || exit 1; \
	done
	install -d "$(DESTDIR)$(SYSCONFDIR)/quartier/serve"
	[ -e "$(DESTDIR)$(SYSCONFDIR)/quartier/quartierd.toml" ] || \
		install -D -m 644 apps/daemon/quartierd.toml "$(DESTDIR)$(SYSCONFDIR)/quartier/quartierd.toml"

# One list of files, that of `stage`; dpkg's own tools do the rest, and every Debian has them.
deb: deps-deb build degrade-jar man ## A Debian package in target/debian
	rm -rf "$(TARGET)/debian"
	$(MAKE) --no-print-directory stage DESTDIR="$(TARGET)/debian/quartier" PREFIX=/usr \
		SYSCONFDIR=/etc ZSH_COMPLETIONS=share/zsh/vendor-completions
	sh xtask/debian/build.sh "$(TARGET)/debian"

deps-deb: deps
	@sh xtask/deps.sh deb

clean: ## Remove what was built (kernels that the lab fetched stay in its cache)
	$(CARGO) clean
	rm -rf demo-out degrade/*/target degrade/trial/*/target
