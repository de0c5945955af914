// SPDX-License-Identifier: MIT
// What several verbs need to make numbers of an option's words, and sentences of what cannot be meant.
#pragma once

#include <boost/program_options.hpp>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace slotscope {

// For an option that has a value.
boost::program_options::typed_value<std::string>* Text(std::string* value, const char* name);

Status Usage(std::string message);
bool ParseNumber(std::string_view text, uint64_t min, uint64_t max, uint64_t* value);
// 100000, 64K, 10M, 2G, 1T.
bool ParseSize(std::string_view text, uint64_t min, uint64_t* bytes);
// The factor of a unit at the end of the text, from where it is taken; 0: there is none of these.
uint64_t TakeUnit(std::initializer_list<std::pair<char, uint64_t>> units, std::string_view* text);
// Process ids between commas, of --pid.
Status ParsePids(const std::string& text, std::vector<int32_t>* pids);
// Between commas; empty ones are left out.
std::vector<std::string> Split(std::string_view text);
// PORT or HOST:PORT, of --metrics.
Status CheckMetrics(const std::string& text);
// Names become labels, and part of questions.
Status CheckId(const char* option, const std::string& id);

}  // namespace slotscope
