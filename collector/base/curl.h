// SPDX-License-Identifier: MIT
// libcurl's handles, and what every use of it here has in common.
#pragma once

#include <curl/curl.h>

#include <memory>
#include <string>

#include "base/escape.h"

namespace slotscope {

// They are all void to C++.
template <auto kFree>
struct FreedByCurl {
  void operator()(void* handle) const { kFree(static_cast<CURL*>(handle)); }
};
struct FreedCurlText {
  void operator()(char* text) const { curl_free(text); }
};
struct FreedCurlUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
struct FreedCurlList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using EasyHandle = std::unique_ptr<CURL, FreedByCurl<curl_easy_cleanup>>;
using MultiHandle = std::unique_ptr<CURLM, FreedByCurl<curl_multi_cleanup>>;
using CurlText = std::unique_ptr<char, FreedCurlText>;
using CurlUrl = std::unique_ptr<CURLU, FreedCurlUrl>;
using CurlList = std::unique_ptr<curl_slist, FreedCurlList>;

// False: there is not enough memory. Any thread.
inline bool SetUpCurl() {
  static const CURLcode kInit = curl_global_init(CURL_GLOBAL_DEFAULT);
  return kInit == CURLE_OK;
}

// What is common to what we ask machines of ours.
inline void SetCommon(CURL* easy) {
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_PROXY, "");  // a machine of ours, not the Internet
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);  // does not wait for a resolver that does not answer
}

// Null: it is no URL.
inline CurlUrl ParseUrl(const std::string& text) {
  CurlUrl url(curl_url());
  if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0)) url.reset();
  return url;
}

// Empty: it has none.
inline std::string PartOf(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags)) return "";
  return CurlText(text).get();
}

// "HOST:PORT": nothing that is to be kept to ourselves.
inline std::string HostOf(CURLU* url) {
  const std::string port = PartOf(url, CURLUPART_PORT);
  return EscapeControls(PartOf(url, CURLUPART_HOST) + (port.empty() ? "" : ":" + port));
}

// Of this text, as a part of a URL.
inline std::string UrlEscaped(CURL* easy, const std::string& text) {
  const CurlText escaped(curl_easy_escape(easy, text.data(), static_cast<int>(text.size())));
  return escaped ? escaped.get() : "";
}

}  // namespace slotscope
