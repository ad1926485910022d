// SPDX-License-Identifier: MIT

module skep

go 1.26
