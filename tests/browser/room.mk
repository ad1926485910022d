# SPDX-License-Identifier: MIT
# The hub's page in a browser. SKEP_PICTURE=docs/pictures/page.png writes its picture.

FULL_SUITES += page-browser
suite_page-browser = BUILD=$(abspath $(B)) SKEP_TEST_BROWSER=chromium SKEP_PICTURE=$(abspath $(SKEP_PICTURE)) \
	$(GO) test -count=1 -json ./tests/browser
suite_page-browser_kind = go
suite_page-browser_needs = $(B)/bin/skep
