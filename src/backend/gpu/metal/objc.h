// Objective-C from C++: messages, ownership, strings. No Objective-C compiler and no blocks: a
// message is a call of objc_msgSend through a pointer of the method's own type, so any C++ compiler
// builds this, and on other systems a stand-in for the runtime can take the calls.
//
// Ownership is Objective-C's: what a method named new... returns is the caller's to release (Ref
// does), everything else is kept by the autorelease pool that surrounds the call (Pool).
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

// The names are the system's; its headers declare them for another language.
extern "C" {
void objc_msgSend();
void* sel_registerName(const char* name);
void* objc_getClass(const char* name);
void objc_retain(void* object);
void objc_release(void* object);
void* objc_autoreleasePoolPush();
void objc_autoreleasePoolPop(void* pool);
}

namespace lily::gpu::metal {

using Id = void*;  // Any object; null is nil, and messages to nil return zero.

// A selector's name as a template argument.
template <std::size_t n>
struct SelectorName {
  char text[n];
  consteval SelectorName(const char (&name)[n]) { std::copy(name, name + n, text); }
};
// Looked up once each.
template <SelectorName name>
Id selector() {
  static const Id value = sel_registerName(name.text);
  return value;
}

// Argument types are taken as they are given, so they must be the method's: std::size_t for
// NSUInteger, long for NSInteger. Results up to 16 bytes only: larger ones take another entry point
// on x86.
template <typename R, SelectorName name, typename... Args>
R send(Id object, Args... args) {
  using Method = R (*)(Id, Id, Args...);
  return reinterpret_cast<Method>(objc_msgSend)(object, selector<name>(), args...);
}

// What is autoreleased inside goes when it ends.
class Pool {
 public:
  Pool() : pool_(objc_autoreleasePoolPush()) {}
  ~Pool() { objc_autoreleasePoolPop(pool_); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

 private:
  void* pool_;
};

// Owns one reference to an object.
class Ref {
 public:
  Ref() = default;
  // Of an object that the caller owns already: the result of a new... method.
  static Ref owned(Id object) { return Ref(object); }
  // Of an object that somebody else owns too: one reference more.
  static Ref shared(Id object) {
    if (object != nullptr) objc_retain(object);
    return Ref(object);
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) objc_release(object_);
  }

  Id id() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  explicit Ref(Id object) : object_(object) {}
  Id object_ = nullptr;
};

// Autoreleased.
inline Id string_object(const std::string& text) {
  return send<Id, "stringWithUTF8String:">(objc_getClass("NSString"), text.c_str());
}
inline std::string string_of(Id string) {
  const char* text = send<const char*, "UTF8String">(string);
  return text == nullptr ? "" : text;
}
// What an NSError says.
inline std::string error_text(Id error) {
  const std::string text = string_of(send<Id, "localizedDescription">(error));
  return text.empty() ? "no reason given" : text;
}

inline long error_code(Id error) {
  return send<long, "code">(error);
}

}  // namespace lily::gpu::metal
