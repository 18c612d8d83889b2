// Objects and messages of the stand-in's runtime. An object is a C++ object with virtual functions;
// its methods are looked up by selector, so host code that misspells one is found out.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <unordered_map>

namespace lily::fake_metal {

using Selector = const void*;
using Method = void (*)();

class Methods {
 public:
  template <typename F>
  Methods& add(const char* selector, F function) {
    return put(selector, reinterpret_cast<Method>(+function));
  }
  Method find(Selector selector) const;

 private:
  Methods& put(const char* selector, Method method);
  std::unordered_map<Selector, Method> table_;
};

class Object {
 public:
  explicit Object(const char* kind);
  virtual ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  virtual const Methods& methods() const = 0;
  const char* kind() const { return kind_; }
  void retain() { ++references_; }
  void release() {
    if (--references_ == 0) delete this;
  }

 private:
  const char* kind_;
  std::atomic<int> references_{1};
};

// A class: what objc_getClass gives. Never freed, not counted.
class Class final : public Object {
 public:
  Class(const char* name, Methods methods);
  const Methods& methods() const override { return methods_; }

 private:
  Methods methods_;
};

// What the pool of this thread keeps. Without a pool it leaks, as on a Mac.
template <typename T>
T* autoreleased(T* object);
void autorelease(Object* object);
template <typename T>
T* autoreleased(T* object) {
  autorelease(object);
  return object;
}

// Something that Metal's checks would stop.
void misuse(const std::string& what);

class String final : public Object {
 public:
  explicit String(std::string t) : Object("NSString"), text(std::move(t)) {}
  const Methods& methods() const override;
  const std::string text;
};

class ErrorObject final : public Object {
 public:
  ErrorObject(long c, std::string t) : Object("NSError"), code(c), text(std::move(t)) {}
  const Methods& methods() const override;
  const long code;
  const std::string text;
};

// Sets an NSError ** that may be null.
void set_error(Object** error, const std::string& text);

}  // namespace lily::fake_metal
