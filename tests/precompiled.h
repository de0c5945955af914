// SPDX-License-Identifier: MIT
// What most tests include, compiled once; see collector/base/precompiled.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/precompiled.h"
