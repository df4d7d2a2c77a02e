# Most people need only make run and make test. make help lists all targets.

SHELL := /bin/bash
.DEFAULT_GOAL := help

GO        ?= go
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME  ?= 60s
GOTESTSUM := gotest.tools/gotestsum@v1.13.0

# Packages that make quick omits, because their tests start programs or take more than a few
# seconds of CPU time: the handler with real sockets, fleets, simulated sites. With -short,
# property tests draw only a fifth of their cases. -w makes the linker omit the debug data.
NOT_QUICK := /cmd/tempomat-(doctor|master|proxy)$$|/docs$$|/cpuaccount/process$$|/limiter/(redis|smockron|gossip)$$|/internal/sim$$|/proxy$$|/proxy/(handover|spool|telemetry/(book|metrics))$$

# Debian packages, by purpose. The programs need ZeroMQ, which is a C library, and therefore a C
# compiler. With CGO_ENABLED=0, they build without these, but don't support Smockron. The tests
# need Apache with PHP, Redis, curl and tmux. The packages apache2-bin and redis-tools contain
# the servers without their system services, so installing them starts no server and
# occupies no port.
BUILD_DEPS := gcc libc6-dev pkg-config libzmq3-dev
TEST_DEPS  := apache2-bin libapache2-mod-php redis-tools curl openssl tmux

# If these are not available, the tests with browsers are skipped.
BROWSER_DEPS := chromium firefox-esr

# Servers that the tests put in front of the proxy and behind it (TestWorldGarden, TestWorldNoSpellingTellsOrigin).
# If a server is not available, its tests are skipped.
GARDEN_DEPS := nginx haproxy varnish lighttpd nodejs php-cli

# Additional programs with which TestWorldRecipes follows the recipes in docs/recipes.
RECIPE_DEPS := apache2 php-fpm gunicorn puma ruby-rack

# WordPress and its database, for TestWordPress.
WORDPRESS_DEPS := wordpress wordpress-theme-twentytwentythree mariadb-server php-mysql php-cli chromium

# Prometheus checks the alerts in deploy/prometheus (TestAlerts, TestWorldPrometheus). If it is
# not available, these tests are skipped.
METRICS_DEPS := prometheus

# These build the documentation's site. Without them, TestSite is skipped.
SITE_DEPS := mkdocs mkdocs-material

# These create the machines on which make packages-test installs the packages.
MACHINE_DEPS := debootstrap systemd-container jq

.PHONY: help run demo demo-attack demo-apache build packages packages-test image charts test quick test-race test-world test-all report-plain report-raced report-world bench-check recipes-wordpress test-standing scenarios sweep ablation harm bench docs fuzz lint deps deps-build deps-test deps-world deps-docs clean

help: ## list the targets
	@awk -F ': .*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## build the programs and start the demo: the proxy and a backend that uses much CPU time
	$(GO) run ./testdata/demo

demo: run ## the same as make run

demo-attack: build ## show how a crawler slows a site with and without the gate: one minute, two tables
	$(GO) run ./testdata/demo -attack

demo-apache: build deps-test ## run the proxy in front of a private Apache with PHP
	testdata/apache/demo

build: deps-build ## build the programs into bin/
	@[ -d bin ] || echo 'building; this takes a minute or two the first time'
	$(GO) build -trimpath -buildvcs=false -ldflags '-X main.version=$(VERSION)' -o bin/ ./cmd/...

# -vet=off, because make lint runs vet. -w saves the linker the debug data of about a hundred test
# programs. -p and -parallel are larger than the number of CPUs, because many tests mostly wait.
GO_TEST := $(GO) test -json -vet=off -ldflags=-w -timeout 12m -p 4 -parallel 8
SUM     := $(GO) run $(GOTESTSUM) --format pkgname --raw-command -- $(MAKE) --no-print-directory -k

# Packages in which several goroutines share data. The race detector needs its own build of the
# standard library, which takes as long as all of make test. Therefore these tests have a separate
# target, which .ci/run calls. With -short, tests that draw many cases or run for long do less.
# FLOODS are skipped, because they use only one goroutine, so the detector can't find races in them.
RACED := ./classify/newcomer ./classify/standing ./cmd/tempomat-master ./cpuaccount ./limiter ./limiter/gossip ./limiter/known \
	./limiter/redis ./limiter/smockron/... ./proxy ./proxy/admin ./proxy/backend ./proxy/connlimit \
	./proxy/front ./proxy/host ./proxy/proof ./proxy/spool ./proxy/telemetry ./proxy/telemetry/book
FLOODS := KnownIsNotEverybody|TestBudget$$|EvictNobody|PushNoneOut|MillionClients|PeopleAreNotHit|MemoryOfEach|ShadowChangesNothing|ANewKindInherits|MemoryIsFlat|MemoryIsBounded

# having returns the packages whose tests have a line that matches a pattern.
having = $$(grep -rlE --include='*_test.go' '^$(1)' . | xargs -n 1 dirname | sort -u)

test: deps-test ## run all tests, including those with a real Apache
	@$(SUM) report-plain

test-race: deps-test ## test the packages in which goroutines share data, with the race detector
	@$(SUM) report-raced

test-world: deps-world ## run the tests with other servers, browsers, Prometheus and the recipes, and without cgo
	@$(SUM) report-world

test-all: deps-test deps-world bench-check ## run test, test-race and test-world with one summary, and each benchmark once
	@$(SUM) report-plain report-raced report-world

# The output is shown only after a failure, because the figures of a single round would mislead.
bench-check:
	@out=$$($(GO) test -vet=off -ldflags=-w -run '^$$' -bench . -benchtime 1x $(call having,func Benchmark) 2>&1) || { printf '%s\n' "$$out"; exit 1; }

# The reports are JSON for gotestsum.
report-plain:
	@$(GO_TEST) ./...

report-raced:
	@CGO_ENABLED=1 $(GO_TEST) -race -short -skip '$(FLOODS)' $(RACED)

# Tests that need third-party programs have the tag world and names that begin with TestWorld.
report-world:
	@$(GO_TEST) -tags world -run '^TestWorld' $(call having,//go:build world)

quick: ## run the fast tests that start no programs: within 20 seconds once they are compiled
	$(GO) test -short -ldflags=-w -timeout 120s $$($(GO) list ./... | grep -vE '$(NOT_QUICK)')

packages: deps-build ## write .deb, .rpm, .tar.gz, bills of materials and SHA256SUMS into dist/
	@.ci/deps "write the bills of materials" jq
	VERSION='$(VERSION)' deploy/package/build dist

packages-test: deps-build ## install, upgrade under load, remove and purge the packages on separate machines (as root; 10 minutes, 15 the first time)
	@.ci/deps "test the packages" $(MACHINE_DEPS)
	@old=$$(mktemp -d) new=$$(mktemp -d); trap 'rm -rf "$$old" "$$new"' EXIT; \
		for v in "$$old v0.9.0" "$$new v0.9.1"; do set -- $$v; \
			ARCHES=$$($(GO) env GOHOSTARCH) VERSION=$$2 deploy/package/build "$$1" && echo "$$2" >"$$1/VERSION" || exit 1; \
		done; deploy/package/test "$$old" "$$new"

image: packages ## build the root of the proxy's container image, dist/image-ARCH, and, if docker is installed, the image
	deploy/docker/build dist

charts: ## lint and render the Helm chart, and check the result against the schemas of Kubernetes
	@.ci/deps "make the schemas" jq
	deploy/helm/check

docs: deps-docs ## build the documentation's site in site/: open site/index.html
	mkdocs build --strict

recipes-wordpress: deps-test ## test WordPress over HTTPS behind each recipe with TLS, in a real Chromium (as root, about a minute)
	@.ci/deps "follow the recipes with WordPress" $(WORDPRESS_DEPS)
	$(GO) test -tags world -run 'TestWordPress$$' -count=1 -v -timeout 10m ./cmd/tempomat-proxy/

test-standing: deps-test ## test that logged-in users of a real WordPress and MediaWiki are attested (as root, about a minute)
	@.ci/deps "run WordPress and MediaWiki" $(WORDPRESS_DEPS) mediawiki
	$(GO) test -tags world -run 'TestStandingOfPeople' -count=1 -v -timeout 10m ./cmd/tempomat-proxy/

scenarios: ## simulate every attack on the gate with five seeds, and compare with the reference; compare fleets with one instance
	TEMPOMAT_SCENARIOS=full $(GO) test -timeout 60m -run 'Scenarios|Demands|Fleets' -count=1 -v ./internal/sim

sweep: ## simulate sites with and without the gate, under hogs and ordinary load; rows that are worse with the gate fail, and some do
	TEMPOMAT_SCENARIOS=sweep $(GO) test -timeout 30m -run WithoutGate -count=1 -v ./internal/sim
	TEMPOMAT_SCENARIOS=ordinary $(GO) test -timeout 30m -run Ordinary -count=1 -v ./internal/sim

ablation: ## simulate rows without each rule of the gate and with broken code; a rule or a break that affects no row is a failure (WORTH=all: all rows)
	TEMPOMAT_WORTH=$(or $(WORTH),1) $(GO) test -timeout 60m -run Mutat -count=1 -v ./internal/sim

harm: build ## measure what the proxy makes worse: ordinary loads on a real Apache with PHP, with and without it (as root, 90 minutes; shorter: HARM="-only wait1s-20 -pairs 1")
	@.ci/deps "run ordinary loads" apache2-bin libapache2-mod-php php-fpm
	$(GO) run ./testdata/harm $(HARM)

bench: ## run the benchmarks of all packages
	$(GO) test -run '^$$' -bench . -benchmem ./...

fuzz: ## run every fuzz target for FUZZTIME (60s)
	@set -e; for pkg in $$($(GO) list ./...); do \
		list=$$($(GO) test -list '^Fuzz' "$$pkg"); \
		for target in $$(grep '^Fuzz' <<<"$$list" || true); do \
			echo "== $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$pkg"; \
		done; \
	done

lint: ## run golangci-lint, check that its import rules work, and look for dead code
	@.ci/lint

deps: deps-build deps-test deps-world ## install missing packages for the build and the tests with apt

deps-build:
	@.ci/deps build $(BUILD_DEPS)

deps-test: deps-build
	@.ci/deps test $(TEST_DEPS)

deps-world: deps-test
	@.ci/deps "test with other servers" $(GARDEN_DEPS) || echo 'continuing without some of the servers' >&2
	@.ci/deps "follow the recipes" $(RECIPE_DEPS) || echo 'continuing without some of the programs' >&2
	@.ci/deps "test alerts" $(METRICS_DEPS) || echo 'continuing without Prometheus' >&2
	@.ci/deps "build the site" $(SITE_DEPS) || echo 'continuing without mkdocs' >&2
	@.ci/deps "test with browsers" $(BROWSER_DEPS) || echo 'continuing without a browser' >&2

deps-docs:
	@.ci/deps "build the site" $(SITE_DEPS)

clean: ## remove the built files
	rm -rf bin dist site
