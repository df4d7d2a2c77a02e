# make run and make test are all that most people need; make help lists the rest.

SHELL := /bin/bash
.DEFAULT_GOAL := help

GO        ?= go
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME  ?= 60s
GOTESTSUM := gotest.tools/gotestsum@v1.13.0

# What make quick leaves out: packages whose tests start programs, and those that take more
# than a few seconds of CPU: the handler against real sockets, fleets, simulated sites. With
# -short, property tests draw a fifth of their cases; -w spares the linker the debug data.
NOT_QUICK := /cmd/tempomat-(doctor|master|proxy)$$|/docs$$|/cpuaccount/process$$|/limiter/(redis|smockron|gossip)$$|/internal/sim$$|/proxy$$|/proxy/(handover|spool|telemetry/(book|metrics))$$

# Debian packages, by what needs them. The programs need ZeroMQ, a C library, and
# with it a compiler; without them they build with CGO_ENABLED=0, and have no
# Smockron. The tests need Apache with PHP, Redis, curl and tmux. apache2-bin and redis-tools
# are the servers without their system services, so that nothing is started and no
# port is taken.
BUILD_DEPS := gcc libc6-dev pkg-config libzmq3-dev
TEST_DEPS  := apache2-bin libapache2-mod-php redis-tools curl openssl tmux

# The tests with browsers are skipped where these cannot be had.
BROWSER_DEPS := chromium firefox-esr

# The servers that the proxy is tried before and behind (TestWorldGarden, TestWorldNoSpellingTellsOrigin).
# The tests are skipped where they cannot be had.
GARDEN_DEPS := nginx haproxy varnish lighttpd nodejs php-cli

# What the recipes of docs/recipes are followed with, beside those (TestWorldRecipes).
RECIPE_DEPS := apache2 php-fpm gunicorn puma ruby-rack

# WordPress and its database (TestWordPress).
WORDPRESS_DEPS := wordpress wordpress-theme-twentytwentythree mariadb-server php-mysql php-cli chromium

# Prometheus reads the alerts in deploy/prometheus (TestAlerts, TestWorldPrometheus). The tests
# are skipped where it cannot be had.
METRICS_DEPS := prometheus

# The documentation is made into a site by these; TestSite is skipped without them.
SITE_DEPS := mkdocs mkdocs-material

# What makes machines to try the packages on (make packages-test).
MACHINE_DEPS := debootstrap systemd-container jq

.PHONY: help run demo demo-attack demo-apache build packages packages-test image charts test quick test-race test-world test-all report-plain report-raced report-world bench-check recipes-wordpress test-standing scenarios sweep ablation harm bench docs fuzz lint deps deps-build deps-test deps-world deps-docs clean

help: ## list what can be made
	@awk -F ': .*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## build all and start the demo: proxy and a backend that burns CPU
	$(GO) run ./testdata/demo

demo: run ## the same

demo-attack: build ## what a crawler does to a site without the gate, and with it: one minute, two tables
	$(GO) run ./testdata/demo -attack

demo-apache: build deps-test ## the proxy before a private Apache with PHP
	testdata/apache/demo

build: deps-build ## build the programs into bin/
	@[ -d bin ] || echo 'building; this takes a minute or two the first time'
	$(GO) build -trimpath -buildvcs=false -ldflags '-X main.version=$(VERSION)' -o bin/ ./cmd/...

# make lint vets. -w spares the linker the debug data, some hundred times. More packages
# run at a time than there are CPUs, as those that start programs mostly wait.
GO_TEST := $(GO) test -json -vet=off -ldflags=-w -timeout 12m -p 4 -parallel 8
SUM     := $(GO) run $(GOTESTSUM) --format pkgname --raw-command -- $(MAKE) --no-print-directory -k

# The packages in which several goroutines share what they keep. The race detector needs the
# standard library compiled again, which takes as long as all of make test: so it has a target of
# its own, which .ci/run calls. What draws many cases or plays for long draws fewer then, as with
# -short, and floods by one goroutine are left out: the detector has nothing to see in them.
RACED := ./classify/newcomer ./classify/standing ./cmd/tempomat-master ./cpuaccount ./limiter ./limiter/gossip ./limiter/known \
	./limiter/redis ./limiter/smockron/... ./proxy ./proxy/admin ./proxy/backend ./proxy/connlimit \
	./proxy/front ./proxy/host ./proxy/proof ./proxy/spool ./proxy/telemetry ./proxy/telemetry/book
FLOODS := KnownIsNotEverybody|TestBudget$$|EvictNobody|PushNoneOut|MillionClients|PeopleAreNotHit|MemoryOfEach|ShadowChangesNothing|ANewKindInherits|MemoryIsFlat|MemoryIsBounded

# The packages that have a line like this in their tests.
having = $$(grep -rlE --include='*_test.go' '^$(1)' . | xargs -n 1 dirname | sort -u)

test: deps-test ## all tests, also before a real Apache
	@$(SUM) report-plain

test-race: deps-test ## the packages in which goroutines share what they keep, with the race detector
	@$(SUM) report-raced

test-world: deps-world ## the tests beside other servers, browsers, Prometheus and the like, by the recipes, and without cgo
	@$(SUM) report-world

test-all: deps-test deps-world bench-check ## make test, test-race and test-world, with one summary, and each benchmark once
	@$(SUM) report-plain report-raced report-world

# What it prints is shown if it fails only: figures of one round would mislead.
bench-check:
	@out=$$($(GO) test -vet=off -ldflags=-w -run '^$$' -bench . -benchtime 1x $(call having,func Benchmark) 2>&1) || { printf '%s\n' "$$out"; exit 1; }

# The reports are JSON for gotestsum.
report-plain:
	@$(GO_TEST) ./...

report-raced:
	@CGO_ENABLED=1 $(GO_TEST) -race -short -skip '$(FLOODS)' $(RACED)

# Tests that need programs of others are tagged world, and named TestWorld.
report-world:
	@$(GO_TEST) -tags world -run '^TestWorld' $(call having,//go:build world)

quick: ## the tests that start no programs and take little: within 20 seconds once they are compiled
	$(GO) test -short -ldflags=-w -timeout 120s $$($(GO) list ./... | grep -vE '$(NOT_QUICK)')

packages: deps-build ## write .deb, .rpm, .tar.gz, bills of materials and SHA256SUMS into dist/
	@.ci/deps "write the bills of materials" jq
	VERSION='$(VERSION)' deploy/package/build dist

packages-test: deps-build ## install, upgrade under load, remove and purge the packages on machines of their own (root; 10 minutes, the first time 15)
	@.ci/deps "try the packages" $(MACHINE_DEPS)
	@old=$$(mktemp -d) new=$$(mktemp -d); trap 'rm -rf "$$old" "$$new"' EXIT; \
		for v in "$$old v0.9.0" "$$new v0.9.1"; do set -- $$v; \
			ARCHES=$$($(GO) env GOHOSTARCH) VERSION=$$2 deploy/package/build "$$1" && echo "$$2" >"$$1/VERSION" || exit 1; \
		done; deploy/package/test "$$old" "$$new"

image: packages ## the root of the proxy's container image, dist/image-ARCH, and the image if there is a docker
	deploy/docker/build dist

charts: ## lint the Helm chart, render it, and hold that against the schemas of Kubernetes
	@.ci/deps "make the schemas" jq
	deploy/helm/check

docs: deps-docs ## the documentation as a site, in site/: open site/index.html
	mkdocs build --strict

recipes-wordpress: deps-test ## WordPress over HTTPS behind each of the recipes with TLS, in a real Chromium (as root, about a minute)
	@.ci/deps "follow the recipes with WordPress" $(WORDPRESS_DEPS)
	$(GO) test -tags world -run 'TestWordPress$$' -count=1 -v -timeout 10m ./cmd/tempomat-proxy/

test-standing: deps-test ## who is logged in to a real WordPress and MediaWiki is attested (as root, about a minute)
	@.ci/deps "run WordPress and MediaWiki" $(WORDPRESS_DEPS) mediawiki
	$(GO) test -tags world -run 'TestStandingOfPeople' -count=1 -v -timeout 10m ./cmd/tempomat-proxy/

scenarios: ## the gate under every attack on virtual time, five seeds, beside the reference; fleets beside one instance
	TEMPOMAT_SCENARIOS=full $(GO) test -timeout 60m -run 'Scenarios|Demands|Fleets' -count=1 -v ./internal/sim

sweep: ## sites beside hogs of all kinds, and ordinary ones, with the gate and without; what is worse with it is a failure, and some is
	TEMPOMAT_SCENARIOS=sweep $(GO) test -timeout 30m -run WithoutGate -count=1 -v ./internal/sim
	TEMPOMAT_SCENARIOS=ordinary $(GO) test -timeout 30m -run Ordinary -count=1 -v ./internal/sim

ablation: ## rows of the tables without each rule of the gate, and with the code broken on purpose: what no row needs, or notices, is a failure (WORTH=all: all rows)
	TEMPOMAT_WORTH=$(or $(WORTH),1) $(GO) test -timeout 60m -run Mutat -count=1 -v ./internal/sim

harm: build ## ordinary loads on a real Apache with PHP, directly and through the proxy: what is worse with it (root; an hour and a half, HARM="-only wait1s-20 -pairs 1" for less)
	@.ci/deps "play ordinary loads" apache2-bin libapache2-mod-php php-fpm
	$(GO) run ./testdata/harm $(HARM)

bench: ## benchmarks of all packages
	$(GO) test -run '^$$' -bench . -benchmem ./...

fuzz: ## every fuzz target for FUZZTIME (60s)
	@set -e; for pkg in $$($(GO) list ./...); do \
		list=$$($(GO) test -list '^Fuzz' "$$pkg"); \
		for target in $$(grep '^Fuzz' <<<"$$list" || true); do \
			echo "== $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$pkg"; \
		done; \
	done

lint: ## golangci-lint, a proof that its rules of imports bite, and no dead code
	@.ci/lint

deps: deps-build deps-test deps-world ## install with apt what build and tests need, if it is missing

deps-build:
	@.ci/deps build $(BUILD_DEPS)

deps-test: deps-build
	@.ci/deps test $(TEST_DEPS)

deps-world: deps-test
	@.ci/deps "test beside other servers" $(GARDEN_DEPS) || echo 'going on without some of them' >&2
	@.ci/deps "follow the recipes" $(RECIPE_DEPS) || echo 'going on without some of them' >&2
	@.ci/deps "test alerts" $(METRICS_DEPS) || echo 'going on without Prometheus' >&2
	@.ci/deps "build the site" $(SITE_DEPS) || echo 'going on without mkdocs' >&2
	@.ci/deps "test with browsers" $(BROWSER_DEPS) || echo 'going on without a browser' >&2

deps-docs:
	@.ci/deps "build the site" $(SITE_DEPS)

clean: ## remove what was built
	rm -rf bin dist site
