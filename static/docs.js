// Shows the OpenAPI document with Swagger UI. A signed-in reader's requests carry the CSRF token.
"use strict";

const place = document.getElementById("api");

SwaggerUIBundle({
  url: place.dataset.schema,
  domNode: place,
  deepLinking: true,
  requestInterceptor: (request) => {
    if (place.dataset.csrf && !["GET", "HEAD", undefined].includes(request.method)) {
      request.headers["X-CSRFToken"] = place.dataset.csrf;
    }
    return request;
  },
});
